"""What every log record of a request carries, and what none may: its correlation id; credentials and line breaks (R13).

A record factory does it, so that it holds for each logger and each handler, whoever has made them.
"""

import logging
import re
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

CORRELATION_ID = "correlation_id"
"""The attribute of a record, and the name in a line, by which the lines of one request are found."""

REDACTED = "[redacted]"

SHORTEST_SECRET = 6
"""Anything shorter would blacken words that are no secret."""

QUIET = ("a2a", "boto3", "botocore", "httpcore", "httpx", "mangum", "s3transfer", "urllib3")
"""Libraries that log whole bodies, headers or URLs below WARNING."""

_BREAKS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]")


@dataclass(slots=True)
class _Request:
    id: str
    secrets: set[str] = field(default_factory=set)


_request: ContextVar[_Request | None] = ContextVar("aion_request", default=None)


@contextmanager
def request(correlation_id: str, secrets: Iterable[str] = ()) -> Iterator[None]:
    """Let what is logged within the block, and by the work that it sets going, carry the id and none of the secrets."""
    begun = _Request(correlation_id)
    token = _request.set(begun)
    try:
        keep_out(*secrets)
        yield
    finally:
        _request.reset(token)


def keep_out(*secrets: str) -> None:
    """Let none of these stand in what this request logs from now on."""
    current = _request.get()
    if current is not None:
        current.secrets.update(secret for secret in secrets if len(secret) >= SHORTEST_SECRET)


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
        return _cleaned(made_by(*args, **kwargs))

    make.is_aions = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(make)


def _cleaned(record: logging.LogRecord) -> logging.LogRecord:
    current = _request.get()
    if current is not None:
        setattr(record, CORRELATION_ID, current.id)
    try:
        said = record.getMessage()
    except Exception:
        # logging says so itself, as it does to whoever has written the line.
        return record
    # What is put into a line does not begin another, which would be taken for the server's own.
    clean = _BREAKS.sub(lambda found: found[0].encode("unicode_escape").decode(), said) if record.args else said
    clean = _without_secrets(clean, current)
    if record.exc_info and record.exc_info[0] is not None and current is not None and current.secrets:
        story = "".join(traceback.format_exception(*record.exc_info))
        if (redacted := _without_secrets(story, current)) != story:
            clean, record.exc_info = f"{clean}\n{redacted}", None
    if clean != said:
        record.msg, record.args = clean, None
    return record


def _without_secrets(text: str, current: _Request | None) -> str:
    # The longest first: one may hold another.
    for secret in sorted(current.secrets, key=len, reverse=True) if current is not None else ():
        text = text.replace(secret, REDACTED)
    return text
