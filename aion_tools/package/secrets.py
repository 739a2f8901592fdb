"""Search of files for private keys and credentials, by name and content."""

import re
from pathlib import Path

_PRIVATE_KEY = re.compile(
    rb"-{4,5} ?BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    # Allow line breaks, quotes, punctuation and PEM headers after the BEGIN line, since source code may quote a key.
    rb"(?:\\[nr]|\\u000[ad]|[\s\"'>+,()\\]|[A-Za-z-]+: [^\n]*\n)*"
    rb"[A-Za-z0-9+/=]{24}"
)

_JWK = re.compile(rb"\"d\"\s*:\s*\"[A-Za-z0-9_-]{40,}\"")
_PUTTY = b"PuTTY-User-Key-File-"
# A secret access key in a file of credentials, code, JSON or a notebook, or in a CSV file of the AWS console.
_AWS_KEY = re.compile(
    rb"(?:(?:secret_access_key|SECRET_ACCESS_KEY|SecretAccessKey)[\"'\])\s\\:=]{1,12}|AKIA[A-Z0-9]{16},)"
    rb"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
)

# Words of placeholders for a key. The keys of AWS's documentation contain EXAMPLE. A random key contains one of these words
# with a probability of one in a million.
_PLACEHOLDER = re.compile(rb"(?i)example|secret|replace|insert|placeholder|abcdef|123456")
# API keys of Anthropic, OpenAI, GitHub, Slack and Google.
_API_KEY = re.compile(
    rb"sk-(?:ant|proj)-[\w-]{40}|gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{60}|xox[bp]-[\w-]{30}|GOCSPX-[\w-]{28}"
    # Longer texts, such as images in notebooks, contain these four letters by chance.
    rb"|AIza[\w-]{35}(?![\w+/=-])"
)

_KEY_STORES = frozenset(
    {".bks", ".jceks", ".jks", ".kdbx", ".keystore", ".p12", ".p8", ".pfx", ".pkcs12", ".pkcs8", ".ppk"}
)

_KEY_NAMES = re.compile(r"id_(?:rsa|dsa|ecdsa|ed25519)(?:_\w+)?")
# Size limit in bytes of the search for keys. Larger files are not searched.
_LARGEST_KEY = 16 * 1024 * 1024
_CREDENTIALS = re.compile(
    r"_netrc|env\.(?:local|dev|development|prod|production|staging|test)|(?:.*\.)?kubeconfig(?:\.ya?ml)?"
    r"|(?:.*[-_.])?(?:credentials|secrets?)(?:\.(?:json|csv|ini|toml|txt|ya?ml))?|client_secret.*\.json|token\.(?:json|pickle)"
    r"|.*\.tfstate(?:\.backup)?|.*\.tfvars(?:\.json)?"
)
"""Names of files that may contain credentials. They go into a package with a warning."""


def looks_like_private_key(file: Path, content: bytes) -> bool:
    """Return True if the file's name or content looks like a private key or an AWS secret access key."""
    if file.suffix.lower() in _KEY_STORES or _KEY_NAMES.fullmatch(file.name):
        return True
    is_jwk = b'"kty"' in content and _JWK.search(content) is not None
    if is_jwk or content.startswith(_PUTTY) or _PRIVATE_KEY.search(content):
        return True
    return any(not _is_placeholder(found[1]) for found in _AWS_KEY.finditer(content))


def _is_placeholder(key: bytes) -> bool:
    """Return True if a text with the length of a secret access key has a placeholder's words, or repeats few characters.

    A true key has random characters of a Base64 alphabet: about 30 different ones, in both cases.
    """
    return (
        len(set(key)) < 10
        or (key.isalpha() and (key.isupper() or key.islower()))
        or _PLACEHOLDER.search(key) is not None
    )


def may_contain_credentials(file: Path, content: bytes) -> bool:
    """Return True if the file's name is usual for credentials, or if its content has an API key."""
    return _CREDENTIALS.fullmatch(file.name) is not None or _API_KEY.search(content) is not None


def searched_content(file: Path) -> bytes:
    """Return the content to search for keys, as UTF-8 if it is UTF-16. Return an empty content for a large file."""
    content = file.read_bytes() if file.stat().st_size <= _LARGEST_KEY else b""
    is_utf_16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    return content.decode("utf-16", errors="replace").encode() if is_utf_16 else content
