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
from aion_core.ports import Blobs, Cipher, Clock
from aion_core.ports.schema import BY_AGENT, RETENTIONS, SESSIONS
from aion_core.sessions.service import Revision, SessionKey, SessionRecord

_KEPT = "kept"
"""The attribute that holds what is sealed."""


class SessionItems:
    """Makes the items of sessions, and reads them."""

    def __init__(self, blobs: Blobs, cipher: Cipher, clock: Clock, *, retention: timedelta) -> None:
        self._blobs, self._cipher, self._clock, self._retention = blobs, cipher, clock, retention
        self._payloads = Payloads(blobs)

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
            "renewed": items.number(self.now()),
            BY_AGENT.partition: items.text(keys.listing_sessions(record.key.user_id, record.key.app_name)),
            BY_AGENT.sort: items.text(keys.listing_at(int(record.updated * 1000), thread)),
        }

    # ── How long they are kept ────────────────────────────────────────────────────────────────────────────────────────
    #
    # A head for a retention after the last append; the rows it needs for half of one more, of which a quarter may pass
    # before they are written to again. So each outlives the head, and is renewed once in a quarter of a retention.

    def expires(self) -> Item:
        """Return when a head that is written now is over."""
        return items.number(self._in(1))

    def row_expires(self) -> Item:
        """Return when an event, or a state, that is written now is over."""
        return items.number(self._in(RETENTIONS[SESSIONS]))

    def is_to_renew(self, item: Item) -> bool:
        """Tell whether the row might be over before its head is."""
        return int(item["expires"]["N"]) < self._in(1.25)

    async def renew_blob(self, row: Item) -> None:
        """Write the row's blob anew, if it has one: objects are kept by their age."""
        blob = blob_of(row)
        content = await self._blobs.get(blob) if blob is not None else None
        if blob is not None and content is not None:
            await self._blobs.put(blob, content)

    def now(self) -> int:
        """Return the time in seconds."""
        return self._in(0)

    def renewed_long_ago(self, head: Item) -> bool:
        """Tell whether a quarter of a retention has passed since the session's rows were looked through."""
        return int(head["renewed"]["N"]) <= self._in(-0.25)

    def _in(self, retentions: float) -> int:
        return int((self._clock.now() + retentions * self._retention).timestamp())


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


def blob_of(item: Item) -> str | None:
    """Return the blob that the item's content lies in, None where the item holds it."""
    kept = item[_KEPT]["M"]
    return kept["blob"]["S"] if "blob" in kept else None
