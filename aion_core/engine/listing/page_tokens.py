"""Page tokens: signed cursors. Each token is valid for one list only. Pure."""

import base64
import hashlib
import hmac
import json
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from aion_core.engine.listing.task_list import ListCursor, TaskFilter
from aion_core.errors import InvalidMessage

VERSION = 1

MAX_CHARACTERS = 512
"""Maximum length of a page token. Every valid token is shorter: its task id has at most 128 characters."""

_FIXED = struct.Struct(">Bq16s")
"""Start of a token: version, microseconds since 1970, hash of the list. The task's id and the signature follow."""
_HASH_BYTES = 16
_AFTER = b"after\0"
"""Part of the signed text in tokens of other lists than task lists, so that tokens of both kinds are distinguished."""
_SIGNATURE_BYTES = hashlib.sha256().digest_size
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def make(secret: bytes, tasks: TaskFilter, cursor: ListCursor) -> str:
    """Return the token of the page after `cursor`, for the task list with this filter."""
    fixed = _FIXED.pack(VERSION, (cursor.timestamp - _EPOCH) // _MICROSECOND, _list_of(tasks))
    return _signed(secret, fixed + cursor.task_id.encode())


def read(secret: bytes, tasks: TaskFilter, token: str) -> ListCursor:
    """Return the cursor in a page token, for the task list with this filter.

    Raises InvalidMessage for an invalid token, and for a token of another deployment or another list.
    """
    content = _content(secret, token)
    # Later formats must have the version at the same offset, so that every release can read it.
    version, microseconds, of = _FIXED.unpack_from(content)
    if version != VERSION:
        raise _unknown()
    if of != _list_of(tasks):
        raise InvalidMessage(
            "pageToken belongs to another list. Repeat the contextId, status and statusTimestampAfter of the first "
            "request, or leave it out to begin with the first page.",
            field="pageToken",
        )
    return ListCursor(_EPOCH + microseconds * _MICROSECOND, content[_FIXED.size :].decode())


def make_after(secret: bytes, of: Sequence[str], after: str) -> str:
    """Return the token of the page after the entry with the name `after`. `of` identifies the list."""
    return _signed(secret, _hash(of) + after.encode(), _AFTER)


def read_after(secret: bytes, of: Sequence[str], token: str) -> str:
    """Return the name in a token of `make_after`: the last entry of the page before. Raises InvalidMessage."""
    content = _content(secret, token, _AFTER)
    if content[:_HASH_BYTES] != _hash(of):
        raise _unknown()
    return content[_HASH_BYTES:].decode()


def _list_of(tasks: TaskFilter) -> bytes:
    """Return a hash that identifies a task list by its owner and filter."""
    since = tasks.since.astimezone(UTC).isoformat() if tasks.since else None
    return _hash([tasks.owner, tasks.agent, tasks.context_id, tasks.state, since])


def _hash(of: Sequence[Any]) -> bytes:
    # Encode as JSON, because it encodes different lists differently, whatever characters they contain.
    return hashlib.sha256(json.dumps(of).encode()).digest()[:_HASH_BYTES]


def _sign(secret: bytes, content: bytes) -> bytes:
    return hmac.digest(secret, b"aion page token\0" + content, hashlib.sha256)


def _signed(secret: bytes, content: bytes, kind: bytes = b"") -> str:
    return _text(content + _sign(secret, kind + content))


def _text(signed: bytes) -> str:
    return base64.urlsafe_b64encode(signed).rstrip(b"=").decode()


def _content(secret: bytes, token: str, kind: bytes = b"") -> bytes:
    """Return the content of a token of this kind. Raises InvalidMessage if the signature is wrong."""
    if len(token) > MAX_CHARACTERS:
        raise _unknown()
    try:
        signed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except ValueError:
        raise _unknown() from None
    content, signature = signed[:-_SIGNATURE_BYTES], signed[-_SIGNATURE_BYTES:]
    # Accept only the text made by `_text`, because the decoder ignores invalid characters and unused bits, so several
    # texts decode to the same bytes.
    if _text(signed) != token or not content or not hmac.compare_digest(signature, _sign(secret, kind + content)):
        raise _unknown()
    return content


def _unknown() -> InvalidMessage:
    return InvalidMessage(
        "pageToken is not from this server. Send the nextPageToken of the page before, unchanged, or leave it out to "
        "begin with the first page.",
        field="pageToken",
    )
