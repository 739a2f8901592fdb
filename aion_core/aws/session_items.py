"""ADK's sessions as items of the table, and back: what ADK keeps lies sealed in them.

Sealed is all of it, not only what is known to be a credential: a token may lie in an event's answer to a request for
credentials, in state under a name of the author's, or in what a tool has said.
"""

import asyncio
import zlib
from collections.abc import Iterable
from datetime import timedelta

from aion_core.aws import items, keys
from aion_core.aws.items import Item
from aion_core.aws.payloads import FAST_BYTES, Payload, Payloads
from aion_core.errors import StoreCorrupt
from aion_core.ports import Cipher, Clock
from aion_core.sessions.service import Revision, SessionKey, SessionRecord

_KEPT = "kept"
"""The attribute that holds what is sealed."""

FOR_EVER = "kept"
"""The folder of blobs that do not expire: what is a user's or an app's has no end."""


class SessionItems:
    """Makes the items of sessions, and reads them."""

    def __init__(self, payloads: Payloads, cipher: Cipher, clock: Clock, *, retention: timedelta) -> None:
        self._payloads, self._cipher, self._clock, self._retention = payloads, cipher, clock, retention

    async def sealed(self, key: keys.Key, content: bytes, *, folder: str) -> Item:
        """Return the attribute that holds the content, for the item of this key and for no other."""
        packed = zlib.compress(content, level=1 if len(content) > FAST_BYTES else -1)
        body = await self._cipher.seal(packed, about=_about(key))
        return await self._payloads.attributes({_KEPT: Payload("sealed", body)}, folder=folder)

    async def content(self, item: Item) -> bytes:
        """Return what the item holds; raises StoreCorrupt where it cannot be read."""
        payload = (await self._payloads.of(item)).get(_KEPT)
        if payload is None:
            raise StoreCorrupt("An item of a session holds nothing.")
        return zlib.decompress(await self._cipher.open(payload.body, about=_about(item)))

    async def contents(self, found: Iterable[Item]) -> list[bytes]:
        """Return what the items hold, in their order."""
        return list(await asyncio.gather(*map(self.content, found)))

    def head(self, record: SessionRecord, thread: str) -> Item:
        """Return what a new session's head holds beside its key."""
        return {
            "v": items.number(items.VERSION),
            "app_name": items.text(record.key.app_name),
            "user_id": items.text(record.key.user_id),
            "session_id": items.text(record.key.session_id),
            "made": items.text(record.revision.made),
            "revision": items.number(record.revision.number),
            "state_revision": items.number(record.revision.number if record.state else -1),
            "updated": items.text(repr(record.updated)),
            "expires": self.expires(),
            "listing_agent": items.text(keys.listing_sessions(record.key.user_id, record.key.app_name)),
            "listing_at": items.text(keys.listing_at(int(record.updated * 1000), thread)),
        }

    def expires(self) -> Item:
        """Return when what is written now is over."""
        return items.number(int((self._clock.now() + self._retention).timestamp()))


def record_of(head: Item) -> SessionRecord:
    """Return the session that the head tells of, without state and events."""
    return SessionRecord(
        SessionKey(head["app_name"]["S"], head["user_id"]["S"], head["session_id"]["S"]),
        revision_of(head),
        float(head["updated"]["S"]),
        {},
    )


def revision_of(head: Item) -> Revision:
    """Return the session's revision."""
    return Revision(int(head["revision"]["N"]), head["made"]["S"])


def _about(key: keys.Key) -> str:
    return f"{key['pk']['S']}/{key['sk']['S']}"
