"""API keys in the table: one item per key, listed by an index."""

from collections.abc import Sequence
from datetime import UTC, datetime

from aion_core.errors import StoreError
from aion_core.ports import Clock, KeyRecord
from aion_core.ports.schema import BY_AGENT
from aion_core.ports.table import Absent, Delete, Item, Put, Table, WriteRefused
from aion_core.stores import keys
from aion_core.stores.items import Reads
from aion_core.tasks.contexts import VERSION, milliseconds


class TableApiKeys:
    """`ports.ApiKeys` in one table."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._reads = table, Reads(table, clock)

    async def add(self, key: KeyRecord) -> None:
        """See `ports.ApiKeys.add`."""
        try:
            await self._table.write(Put(keys.api_key_key(key.id), _attributes(key), only_if=Absent()))
        except WriteRefused as error:
            # Accept an identical key: an earlier attempt of this call may have stored it, but its response was lost.
            if await self.find(key.id) != key:
                raise StoreError("An API key with this id exists already.") from error

    async def find(self, key_id: str) -> KeyRecord | None:
        """See `ports.ApiKeys.find`."""
        item = await self._reads.get(keys.api_key_key(key_id))
        return _record(item) if item is not None else None

    async def all(self) -> Sequence[KeyRecord]:
        """See `ports.ApiKeys.all`."""
        entries = self._reads.all_of_index(BY_AGENT, keys.LISTING_API_KEYS, newest_first=True)
        found = [await self._reads.get(keys.key_of(entry)) async for entry in entries]
        return [_record(item) for item in found if item is not None]

    async def revoke(self, key_id: str) -> bool:
        """See `ports.ApiKeys.revoke`."""
        return await self._table.write(Delete(keys.api_key_key(key_id)), returning=True) is not None


def _attributes(key: KeyRecord) -> Item:
    created = milliseconds(key.created)
    attributes: Item = {
        "v": VERSION,
        "sha256": key.sha256,
        "principal": key.principal,
        "created": created,
        "last4": key.last4,
        "scopes": sorted(key.scopes),
        "tenant": key.tenant,
        BY_AGENT.partition: keys.LISTING_API_KEYS,
        BY_AGENT.sort: keys.listing_at(created, key.id),
    }
    if key.agents is not None:
        attributes["agents"] = sorted(key.agents)
    if key.expires is not None:
        attributes["expires"] = int(key.expires.timestamp())
    return attributes


def _record(item: Item) -> KeyRecord:
    return KeyRecord(
        id=keys.api_key_of(keys.key_of(item)),
        sha256=item["sha256"],
        principal=item["principal"],
        created=datetime.fromtimestamp(item["created"] / 1000, UTC),
        last4=item["last4"],
        agents=frozenset(item["agents"]) if "agents" in item else None,
        scopes=frozenset(item["scopes"]),
        tenant=item["tenant"],
        expires=datetime.fromtimestamp(item["expires"], UTC) if "expires" in item else None,
    )
