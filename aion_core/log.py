"""What every log record carries, and what none may: by which lines are found; credentials and line breaks (R13).

A record factory does it, so that it holds for each logger and each handler, whoever has made them. How a record becomes
a line is the handler's: `aws.log_lines` on Lambda.
"""

import logging
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any

CORRELATION_ID = "correlation_id"
"""The name in a line by which the lines of one request are found; on Lambda it is the invocation's id."""

REDACTED = "[redacted]"

SHORTEST_SECRET = 6
"""Anything shorter would blacken words that are no secret."""

QUIET = ("a2a", "boto3", "botocore", "httpcore", "httpx", "mangum", "s3transfer", "urllib3")
"""Libraries that log whole bodies, headers or URLs below WARNING."""

_BREAKS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]")

_LABELS = "aion_labels"
"""The attribute of a record that holds its labels: under a name of its own each would forbid that name in `extra`."""


@dataclass(slots=True)
class _Request:
    secrets: set[str] = field(default_factory=set)


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


def labels_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """Return the labels of a record; none where it was made before `install`."""
    found: Mapping[str, Any] = getattr(record, _LABELS, {})
    return found


def without_secrets(value: Any) -> Any:
    """Return a text, or what JSON can hold, without this request's secrets; anything else as its text, if it has any."""
    current = _request.get()
    return value if current is None or not current.secrets else _without_secrets(value, current)


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
    clean = _BREAKS.sub(lambda found: found[0].encode("unicode_escape").decode(), said) if record.args else said
    clean = without_secrets(clean)
    current = _request.get()
    if record.exc_info and record.exc_info[0] is not None and current is not None and current.secrets:
        story = "".join(traceback.format_exception(*record.exc_info))
        if (redacted := without_secrets(story)) != story:
            clean, record.exc_info = f"{clean}\n{redacted}", None
    if clean != said:
        record.msg, record.args = clean, None
    return record


def _without_secrets(value: Any, current: _Request) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case Mapping():
            return {_without_secrets(key, current): _without_secrets(each, current) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_without_secrets(each, current) for each in value]
    text = str(value)
    # The longest first: one may hold another.
    for secret in sorted(current.secrets, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text


def _put_back(variable: ContextVar[Any], token: Token[Any]) -> None:
    # What is left to the garbage collector (work whose event loop is gone, say) ends in somebody else's context.
    with suppress(ValueError):
        variable.reset(token)
