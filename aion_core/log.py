"""What every log record carries, and what none may: by which lines are found; credentials and line breaks (R13).

A record factory does it, so that it holds for each logger and each handler, whoever has made them. How a record becomes
a line is the handler's: `aws.log_formatter` on Lambda.
"""

import json
import logging
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

CORRELATION_ID = "correlation_id"
"""The name in a line by which the lines of one request are found; on Lambda it is the invocation's id."""

REDACTED = "[redacted]"

SHORTEST_SECRET = 6
"""Anything shorter would blacken words that are no secret."""

_SHORTEST_LINE = 16
"""A line of a secret of several lines, such as a private key, is kept out by itself from this length on."""

QUIET = ("a2a", "boto3", "botocore", "httpcore", "httpx", "mangum", "s3transfer", "urllib3")
"""Libraries that log whole bodies, headers or URLs below WARNING."""

_BREAKS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]")

_LABELS = "aion_labels"
"""The attribute of a record that holds its labels: under a name of its own each would forbid that name in `extra`."""


@dataclass(slots=True)
class _Request:
    secrets: set[str] = field(default_factory=set)


_always: set[str] = set()
"""Texts that no log line of this process may hold: secrets of agents' code, in every form a line could show."""

_request: ContextVar[_Request | None] = ContextVar("aion_request", default=None)
_labels: ContextVar[Mapping[str, Any]] = ContextVar("aion_labels", default={})  # noqa: B039  # never changed, only replaced


@contextmanager
def request(correlation_id: str, secrets: Iterable[str] = (), **labels: Any) -> Iterator[None]:
    """Let what is logged within the block, and by the work that it sets going, carry the id and none of the secrets."""
    token = _request.set(_Request())
    try:
        keep_out(*secrets)
        with about(**{CORRELATION_ID: correlation_id}, **labels):
            yield
    finally:
        _put_back(_request, token)


@contextmanager
def about(**labels: Any) -> Iterator[None]:
    """Let what is logged within the block, and by the work that it sets going, carry these labels: ids, never words."""
    token = _labels.set({**_labels.get(), **labels})
    try:
        yield
    finally:
        _put_back(_labels, token)


def note(**labels: Any) -> None:
    """Do as `about`, until the block that is around this one ends, or the asyncio task in which this is called."""
    _labels.set({**_labels.get(), **labels})


def keep_out(*secrets: str) -> None:
    """Let none of these stand in what this request logs from now on."""
    current = _request.get()
    if current is not None:
        current.secrets.update(secret for secret in secrets if len(secret) >= SHORTEST_SECRET)


def always_keep_out(*secrets: str) -> None:
    """Let none of these stand in any line that this process logs from now on, in whatever form a line shows them.

    One that is shorter than SHORTEST_SECRET is left in: it would blacken words that are no secret.
    """
    global _always
    shown: set[str] = set()
    for secret in secrets:
        text = secret.strip()
        # As it is, in JSON, in a repr or with escaped line breaks, in a URL; a key of several lines may be cut up.
        shown |= {text, json.dumps(text)[1:-1], repr(text)[1:-1], quote(text, safe="")}
        shown |= {json.dumps(text, ensure_ascii=False)[1:-1], _one_line(text)}
        if len(lines := text.splitlines()) > 1:
            shown |= {line.strip() for line in lines if len(line.strip()) >= _SHORTEST_LINE}
    # Replaced, never changed: other threads are logging.
    _always = _always | {each for each in shown if len(each) >= SHORTEST_SECRET}


def labels_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """Return the labels of a record; none where it was made before `install`."""
    found: Mapping[str, Any] = getattr(record, _LABELS, {})
    return found


def without_secrets(value: Any) -> Any:
    """Return a text, or what JSON can hold, without secrets of this request or process; anything else as its text, if it has any."""
    secrets = _secrets()
    return _without_secrets(value, secrets) if secrets else value


def install() -> None:
    """Let every record be made so; a second time changes nothing."""
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


def _cleaned(record: logging.LogRecord) -> logging.LogRecord:
    try:
        said = record.getMessage()
    except Exception:
        # logging says so itself, as it does to whoever has written the line.
        return record
    # What is put into a line does not begin another, which would be taken for the server's own.
    clean = _one_line(said) if record.args else said
    clean = without_secrets(clean)
    if record.exc_info and record.exc_info[0] is not None and _secrets():
        story = "".join(traceback.format_exception(*record.exc_info))
        if (redacted := without_secrets(story)) != story:
            clean, record.exc_info = f"{clean}\n{redacted}", None
    if clean != said:
        record.msg, record.args = clean, None
    return record


def _one_line(text: str) -> str:
    return _BREAKS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _secrets() -> frozenset[str]:
    """Return what may not stand in a line now: this request's secrets, and the process's."""
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
    # The longest first: one may hold another.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text


def _put_back(variable: ContextVar[Any], token: Token[Any]) -> None:
    # What is left to the garbage collector (work whose event loop is gone, say) ends in somebody else's context.
    with suppress(ValueError):
        variable.reset(token)
