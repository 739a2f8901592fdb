"""Page tokens: where the next page begins, signed, and good for the list it was made for only. Pure."""

import base64
import hashlib
import hmac
import json
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from aion_core.errors import InvalidMessage
from aion_core.ports import ListCursor, TaskFilter

VERSION = 1

MAX_CHARACTERS = 512
"""More than any token of ours has: an id has 128 characters at the most, the rest is of fixed length."""

_FIXED = struct.Struct(">Bq16s")
"""Version, microseconds since 1970, and of which list; the task's id and the signature follow."""
_HASH_BYTES = 16
_AFTER = b"after\0"
"""Signed with a place that is no task's, so that no token of one kind is one of the other."""
_SIGNATURE_BYTES = hashlib.sha256().digest_size
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def make(secret: bytes, tasks: TaskFilter, place: ListCursor) -> str:
    """Return the token of the page that follows `place` in the list of these tasks."""
    fixed = _FIXED.pack(VERSION, (place.timestamp - _EPOCH) // _MICROSECOND, _list_of(tasks))
    said = fixed + place.task_id.encode()
    return _text(said + _sign(secret, said))


def read(secret: bytes, tasks: TaskFilter, token: str) -> ListCursor:
    """Return the place that the token names.

    Raises InvalidMessage where this deployment has not made it, or made it for another list.
    """
    signed = _bytes(token)
    said, signature = signed[:-_SIGNATURE_BYTES], signed[-_SIGNATURE_BYTES:]
    # Of what is not signed nothing is looked at.
    if not hmac.compare_digest(signature, _sign(secret, said)):
        raise _unknown()
    # Today's version is the first; a later one keeps the version in this place.
    version, microseconds, of = _FIXED.unpack_from(said)
    if version != VERSION:
        raise _unknown()
    if of != _list_of(tasks):
        raise InvalidMessage(
            "pageToken is of another list. Repeat the contextId, status and statusTimestampAfter of the request that it "
            "answered, or leave it out to begin with the first page.",
            field="pageToken",
        )
    return ListCursor(_EPOCH + microseconds * _MICROSECOND, said[_FIXED.size :].decode())


def make_after(secret: bytes, of: Sequence[str], after: str) -> str:
    """Return the token of the page that follows what is called `after`, in a list that these words tell from others."""
    said = _hash(of) + after.encode()
    return _text(said + _sign(secret, _AFTER + said))


def read_after(secret: bytes, of: Sequence[str], token: str) -> str:
    """Return what the page follows that the token names; raises InvalidMessage as `read` does."""
    signed = _bytes(token)
    said, signature = signed[:-_SIGNATURE_BYTES], signed[-_SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _sign(secret, _AFTER + said)) or said[:_HASH_BYTES] != _hash(of):
        raise _unknown()
    return said[_HASH_BYTES:].decode()


def _list_of(tasks: TaskFilter) -> bytes:
    """Return what tells one list from another: whose tasks it holds, and which of them."""
    since = tasks.since.astimezone(UTC).isoformat() if tasks.since else None
    return _hash([tasks.owner, tasks.agent, tasks.context_id, tasks.state, since])


def _hash(of: Sequence[Any]) -> bytes:
    # As JSON, so that no choice of characters makes two lists one.
    return hashlib.sha256(json.dumps(of).encode()).digest()[:_HASH_BYTES]


def _sign(secret: bytes, said: bytes) -> bytes:
    return hmac.digest(secret, b"aion page token\0" + said, hashlib.sha256)


def _text(signed: bytes) -> str:
    return base64.urlsafe_b64encode(signed).rstrip(b"=").decode()


def _bytes(token: str) -> bytes:
    if len(token) > MAX_CHARACTERS:
        raise _unknown()
    try:
        signed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except ValueError:
        raise _unknown() from None
    # The decoder passes over characters and bits that say nothing to it.
    if _text(signed) != token or len(signed) <= _SIGNATURE_BYTES:
        raise _unknown()
    return signed


def _unknown() -> InvalidMessage:
    return InvalidMessage(
        "pageToken is none of this server's. Send the nextPageToken of the page before, unchanged, or leave it out to "
        "begin with the first page.",
        field="pageToken",
    )
