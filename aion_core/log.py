"""Log records: add correlation labels, redact secrets, escape line breaks.

A log record factory does this for every logger and handler. On Lambda, the handler of `aws.log_formatter` formats the
records.
"""

import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from aion_core.redaction import REDACTED, messages_of, without_credentials

logger = logging.getLogger(__name__)
"""Logger of this module. If an agent's code disables all existing loggers, this one is disabled too."""

CORRELATION_ID = "correlation_id"
"""Label in the log lines of one request. On Lambda its value is the id of the invocation."""

SHORTEST_SECRET = 6
"""Minimum length of a redacted text. Redaction of shorter texts would also hide ordinary words."""

_SHORTEST_LINE = 16
"""Minimum length of a separately redacted line in a secret of several lines, such as a private key."""

QUIET = (
    *("a2a", "boto3", "botocore", "httpcore", "httpcore2", "httpx", "httpx2", "mangum", "s3transfer", "urllib3"),
    *("anthropic", "google_adk", "google_genai", "openai"),
)
"""Names of libraries that log bodies, prompts, headers or URLs below WARNING."""

_WORDS = re.compile(
    r"[\W_]*(?:(?:[A-Z]?[a-z]{1,15}(?:[A-Z][a-z]{2,15}){0,3}|[A-Z]{1,15}|[0-9]{1,5})(?:[\W_]+|\Z))*", re.ASCII
)
"""Matches ordinary words, such as `Refused with -32602 (INVALID_PARAMS)`, but no random text."""
_LONGEST_WORDS = 200

_BREAKS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]")

TRACESTATE = "tracestate"
"""Label with the `tracestate` beside the label `traceparent`. Log lines omit it, because it may have many characters."""

_LABELS = "aion_labels"
"""Attribute of a log record with all its labels. Separate attributes would forbid the labels' names in `extra`."""


@dataclass(slots=True)
class _Request:
    on_internal_error: Callable[[], None]
    secrets: set[str] = field(default_factory=set)


_always: set[str] = set()
"""Texts redacted in all log lines of this process: secrets of the agents' code, in plain and escaped forms."""

_request: ContextVar[_Request | None] = ContextVar("aion_request", default=None)
_labels: ContextVar[Mapping[str, Any]] = ContextVar("aion_labels", default={})  # noqa: B039  # never changed, only replaced


def _ignore() -> None:
    """Do nothing: default for `on_internal_error`."""


@contextmanager
def request(
    correlation_id: str,
    secrets: Iterable[str] = (),
    on_internal_error: Callable[[], None] = _ignore,
    **labels: Any,
) -> Iterator[None]:
    """Label the log lines of the `with` block and of asyncio tasks started in it. Redact the secrets in these lines.

    Within the block, `count_internal_error` calls `on_internal_error`.
    """
    token = _request.set(_Request(on_internal_error))
    labels_token = _labels.set({**_labels.get(), CORRELATION_ID: correlation_id, **labels})
    try:
        keep_out(*secrets)
        yield
    finally:
        _put_back(_labels, labels_token)
        _put_back(_request, token)


@contextmanager
def about(**labels: Any) -> Iterator[None]:
    """Label the log lines of the `with` block and of asyncio tasks started in it. Labels contain no message content."""
    token = _labels.set({**_labels.get(), **labels})
    try:
        yield
    finally:
        _put_back(_labels, token)


def note(**labels: Any) -> None:
    """Add labels to log lines until the end of the surrounding `about` block or of the current asyncio task."""
    _labels.set({**_labels.get(), **labels})


def label(name: str) -> str:
    """Return the value of a label of log lines; "" if it is not set here."""
    return str(_labels.get().get(name, ""))


def keep_out(*secrets: str, even_words: bool = False) -> None:
    """Redact these texts in later log lines of this request.

    Ordinary words are not redacted: otherwise a client could send them as secrets and hide the text of log lines.
    `even_words` redacts them too; use it for verified credentials.
    """
    current = _request.get()
    if current is not None:
        found = (secret for secret in secrets if len(secret) >= SHORTEST_SECRET)
        current.secrets.update(secret for secret in found if even_words or not _are_words(secret))


def _are_words(text: str) -> bool:
    return len(text) <= _LONGEST_WORDS and _WORDS.fullmatch(text) is not None


def always_keep_out(*secrets: str) -> None:
    """Redact these texts in all later log lines of this process, in plain or escaped form.

    A text shorter than SHORTEST_SECRET is ignored, because its redaction would also hide ordinary words.
    """
    global _always
    shown: set[str] = set()
    for secret in secrets:
        text = secret.strip()
        # Redact the text in plain form, in JSON, in a repr, with escaped line breaks and in a URL. Redact each line of
        # a key with several lines too.
        shown |= {text, json.dumps(text)[1:-1], repr(text)[1:-1], quote(text, safe="")}
        shown |= {json.dumps(text, ensure_ascii=False)[1:-1], one_line(text)}
        if len(lines := text.splitlines()) > 1:
            shown |= {line.strip() for line in lines if len(line.strip()) >= _SHORTEST_LINE}
    # Replace the set instead of changing it, because other threads read the set while they log.
    _always = _always | {each for each in shown if len(each) >= SHORTEST_SECRET}


def labels_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """Return the labels of a log record, without TRACESTATE. A record made before `install` has no labels."""
    found: Mapping[str, Any] = getattr(record, _LABELS, {})
    return {name: value for name, value in found.items() if name != TRACESTATE} if TRACESTATE in found else found


def without_secrets(value: Any) -> Any:
    """Return a text or JSON value with the secrets of this request and of this process redacted.

    If there are secrets to redact, a value of another type is converted to a text.
    """
    secrets = _secrets()
    return _without_secrets(value, secrets) if secrets else value


def install() -> None:
    """Install the log record factory of aion. A repeated call has no effect."""
    for name in QUIET:
        logger = logging.getLogger(name)
        if logger.level < logging.WARNING:
            logger.setLevel(logging.WARNING)
    made_by = logging.getLogRecordFactory()
    if getattr(made_by, "is_aions", False):
        return

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = made_by(*args, **kwargs)
        setattr(record, _LABELS, _labels.get())
        return _cleaned(record)

    make.is_aions = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(make)
    _log_unhandled()


def _log_unhandled() -> None:
    """Log the exceptions that nobody catches in threads and finalizers: Python would print them without redaction."""
    of_threads, of_finalizers = threading.excepthook, sys.unraisablehook

    def thread_failed(unhandled: threading.ExceptHookArgs) -> None:
        if unhandled.exc_value is not None and not isinstance(unhandled.exc_value, SystemExit):
            name = unhandled.thread.name if unhandled.thread is not None else ""
            logger.error("The thread %s has failed.", name, exc_info=unhandled.exc_value)
        if of_threads is not threading.__excepthook__:
            of_threads(unhandled)  # another library's, which reports errors

    def finalizer_failed(unhandled: Any) -> None:
        if unhandled.exc_value is not None:
            logger.warning("An exception was ignored in a finalizer.", exc_info=unhandled.exc_value)
        if of_finalizers is not sys.__unraisablehook__:
            of_finalizers(unhandled)

    threading.excepthook, sys.unraisablehook = thread_failed, finalizer_failed


def handle_records(handler: logging.Handler, *, alone: bool = False) -> None:
    """Add a handler of the server to the root logger. With `alone`, first remove all other handlers."""
    root = logging.getLogger()
    if alone:
        root.handlers.clear()
        _handlers.clear()
    root.addHandler(handler)
    _handlers.append(handler)


@contextmanager
def kept_handlers() -> Iterator[Callable[[], None]]:
    """Restore the server's log handlers after the `with` block, even if an agent's code in it sets up logging.

    `dictConfig` disables all existing loggers, and `basicConfig(force=True)` removes the root logger's handlers.
    Afterwards the agent's handlers get the records of the agent and of libraries, and the server's handlers get the
    server's records. Each call of the yielded function restores them at once, and costs little.
    """
    root = logging.getLogger()
    before, level = [handler for handler in _handlers if handler in root.handlers], root.level
    present = frozenset(before)

    def restore() -> None:
        if logger.disabled:
            # Enable this logger first. If another thread disables all loggers during the loop, it disables this one
            # too, and the next call of `restore` enables them again.
            logger.disabled = False
            for name, each in list(root.manager.loggerDict.items()):
                if isinstance(each, logging.Logger) and name.partition(".")[0] in _SERVER:
                    each.disabled = False
        if not present.issubset(root.handlers):
            for name in _SERVER:
                ours = logging.getLogger(name)
                ours.handlers[:], ours.propagate = before, False
                ours.setLevel(ours.level or level)

    try:
        yield restore
    finally:
        restore()


_SERVER = ("aion_core", "aion_tools", "handlers")
"""Names of the server's loggers."""

_handlers: list[logging.Handler] = []
"""Handlers of the server."""


def _cleaned(record: logging.LogRecord) -> logging.LogRecord:
    try:
        message = record.getMessage()
    except Exception:
        # Leave a record with a wrong format string unchanged, because the log handler reports this error.
        return record
    # Escape line breaks if the message has arguments, because an argument could forge a log line.
    clean = one_line(message) if record.args else message
    clean = without_secrets(clean)
    # A warning may quote the message of an exception: as an argument, as asyncio does, or by an author's f-string.
    if record.levelno >= logging.WARNING or _has_error(record.args):
        clean = without_credentials(clean)
    if record.exc_info and record.exc_info[1] is not None:
        kind, error, _ = record.exc_info
        story = "".join(traceback.format_exception(*record.exc_info))
        redacted = without_secrets(story)
        for told in filter(None, messages_of(error)):
            # Python indents the lines of the messages in an exception group.
            quoted = r"\n[ |]*".join(map(re.escape, told.split("\n")))
            redacted = re.sub(quoted, lambda found: without_credentials(found[0]), redacted)
        if redacted != story:
            clean, record.exc_info, record.exception_name = f"{clean}\n{redacted}", None, kind.__name__
    if clean != message:
        record.msg, record.args = clean, None
    return record


def _has_error(value: Any, depth: int = 3) -> bool:
    """Return True for an exception, and for a collection with one, such as the results of `asyncio.gather`."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple | set | frozenset):
        return isinstance(value, BaseException)
    return depth > 0 and any(_has_error(each, depth - 1) for each in value)


def one_line(text: str) -> str:
    """Return the text with its line breaks, control characters and marks of direction escaped. Tabs stay as they are."""
    return _BREAKS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _secrets() -> frozenset[str]:
    """Return the texts to redact for the current request and for the process."""
    current = _request.get()
    return frozenset(_always | current.secrets if current is not None else _always)


def _without_secrets(value: Any, secrets: frozenset[str]) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case Mapping():
            return {_without_secrets(key, secrets): _without_secrets(each, secrets) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_without_secrets(each, secrets) for each in value]
    text = str(value)
    # Replace the longest secret first, because a secret may contain another secret.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text


def _put_back(variable: ContextVar[Any], token: Token[Any]) -> None:
    # Ignore the ValueError of `reset`: the garbage collector may close a generator in another context, for example
    # after the generator's event loop has ended.
    with suppress(ValueError):
        variable.reset(token)


def count_internal_error() -> None:
    """Count an error response caused by a failure of the server. Its HTTP status may be 200."""
    if current := _request.get():
        current.on_internal_error()
