"""API keys in the table: one item per key, listed by an index."""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from aion_core.auth.principal import API_KEY_ISSUER, Principal
from aion_core.auth.tenants import owner_in
from aion_core.clock import Clock
from aion_core.errors import StoreError
from aion_core.table import keys
from aion_core.table.conditions import Absent
from aion_core.table.item import Item, key_of
from aion_core.table.port import Table
from aion_core.table.reads import Reads
from aion_core.table.refusals import WriteRefused
from aion_core.table.schema import BY_AGENT
from aion_core.table.stamp import stamp
from aion_core.table.times import milliseconds
from aion_core.table.writes import Delete, Put


class KeyRecord(Struct, frozen=True):
    """Stored record of an API key: its hash, principal and permissions. It does not contain the key."""

    id: str
    """First characters of the API key, used to find its record."""
    sha256: str
    """SHA-256 of the whole key in hexadecimal. A key of 256 random bits needs no slower hash."""
    principal: str
    """Owner of the tasks created with the key. A replacement key has the same principal, and so the same tasks."""
    created: datetime
    last4: str
    """Last characters of the key, so that its user can recognise it."""
    agents: frozenset[str] | None = None
    """Agents that the key may call; None for all."""
    scopes: frozenset[str] = frozenset()
    tenant: str = ""
    """The only tenant that the key may use; "" for any."""
    expires: datetime | None = None

    @property
    def owner(self) -> str:
        """Return the owner id of the tasks created with the key in its tenant, or without a tenant."""
        return owner_in(Principal(API_KEY_ISSUER, self.principal).owner, self.tenant)


class ApiKeys:
    """Store of the API keys of one deployment."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._reads = table, Reads(table, clock)

    async def add(self, key: KeyRecord) -> None:
        """Store the record of a new API key. Raises StoreError, also for a duplicate id."""
        try:
            await self._table.write(Put(keys.api_key_key(key.id), _attributes(key), only_if=Absent()))
        except WriteRefused as error:
            # Accept an identical key: an earlier attempt of this call may have stored it, but its response was lost.
            if await self.find(key.id) != key:
                raise StoreError("An API key with this id exists already.") from error

    async def find(self, key_id: str) -> KeyRecord | None:
        """Return the record of the API key with this id; None if it does not exist or has expired.

        The read is consistent. Raises StoreError.
        """
        item = await self._reads.get(keys.api_key_key(key_id))
        return _record(item) if item is not None else None

    async def all(self) -> Sequence[KeyRecord]:
        """Return the records of all API keys, newest first. The index may lag behind `add`. Raises StoreError."""
        entries = self._reads.all_of_index(BY_AGENT, keys.LISTING_API_KEYS, newest_first=True)
        found = [await self._reads.get(key_of(entry)) async for entry in entries]
        return [_record(item) for item in found if item is not None]

    async def revoke(self, key_id: str) -> bool:
        """Delete an API key with immediate effect. Return True if it existed and was valid. Raises StoreError."""
        item = await self._table.write(Delete(keys.api_key_key(key_id)), returning=True)
        return item is not None and self._reads.lives(item)


def _attributes(key: KeyRecord) -> Item:
    created = milliseconds(key.created)
    attributes: Item = {
        **stamp(key.owner, int(key.expires.timestamp()) if key.expires is not None else None),
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
    return attributes


def _record(item: Item) -> KeyRecord:
    return KeyRecord(
        id=keys.api_key_of(key_of(item)),
        sha256=item["sha256"],
        principal=item["principal"],
        created=datetime.fromtimestamp(item["created"] / 1000, UTC),
        last4=item["last4"],
        agents=frozenset(item["agents"]) if "agents" in item else None,
        scopes=frozenset(item["scopes"]),
        tenant=item["tenant"],
        expires=datetime.fromtimestamp(item["expires"], UTC) if "expires" in item else None,
    )
