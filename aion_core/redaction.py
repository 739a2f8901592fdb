"""Credentials in texts that this process did not write, such as the messages of a library's exceptions."""

import re
from collections.abc import Iterator

REDACTED = "[redacted]"

KEY_PREFIXES = re.compile(
    r"-----BEGIN|(sk-|sk_|AIza|ya29\.|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|tvly-|lsv2_|hf_|gsk_|pplx-).{16}"
)
"""Beginning of a private key, or of an API key of a well-known service."""

_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY.{0,10000}?(?:-----END [A-Z ]*-----|\Z)", re.S)
_KEY = re.compile(rf"\b(?:{KEY_PREFIXES.pattern.partition('|')[2].removesuffix('.{16}')})[\w.~+/=-]{{16,}}")
_TOKEN = re.compile(
    r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?|\b(?:[Bb]earer|[Bb]asic) +(?=\S+[\dA-Z/+=._-])[\w.~+/=-]{8,}"
)
_IN_URL = re.compile(r"(://[^/\s:@'\"]{0,200}:)[^/\s@'\"]{1,500}(?=@)")
_BARE = r"""[^\s"',;&)}\]]{4,1000}"""
_VALUE = rf"""(?!\[redacted\]|(?:None|null|True|False|str|int|bytes)\b)(?:"[^"]{{4,1000}}"|'[^']{{4,1000}}'|{_BARE})"""
# After a colon without quotes, a value without a digit is a word, as in "unexpected token: comma".
_NAMED = re.compile(
    rf"""(?i:(\b[\w-]{{0,40}}(?:pass(?:word|wd|phrase)|pwd|secret|token|(?:api|access|private|secret)[_-]?key|credential)
    (?:["']?\s{{0,4}}=\s{{0,4}}(?={_VALUE})|["']\s{{0,4}}[:,]\s{{0,4}}(?={_VALUE})|\s?:\s{{0,4}}(?=\S*\d)(?={_VALUE}))))
    {_VALUE}""",
    re.X,
)


def without_credentials(text: str) -> str:
    """Return the text with its credentials redacted: keys of known services, tokens, and values named like a password."""
    for pattern in (_PRIVATE_KEY, _KEY, _TOKEN):
        text = pattern.sub(REDACTED, text)
    for pattern in (_IN_URL, _NAMED):
        text = pattern.sub(rf"\g<1>{REDACTED}", text)
    return text


def messages_of(error: BaseException) -> Iterator[str]:
    """Yield the messages and notes of an exception, of its causes and of its group's exceptions, each once."""
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        try:
            yield str(each)
        except Exception:  # an author's exception may have a broken __str__
            yield ""
        yield from map(str, getattr(each, "__notes__", ()))
        waiting += [other for other in (each.__cause__, each.__context__) if other is not None]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
