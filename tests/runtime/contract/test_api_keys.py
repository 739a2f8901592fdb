"""Contract of `ApiKeys` on each table."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from aion_core.auth.api_keys import ApiKeys, KeyRecord
from aion_core.auth.schemes.api_key import make_key
from aion_core.errors import StoreError
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.stores import table_of


@pytest.fixture
def keys(adapter: Stack | None, clock: ManualClock) -> ApiKeys:
    return ApiKeys(table_of(adapter, clock), clock)


def record(clock: ManualClock, principal: str = "alice", **more: object) -> KeyRecord:
    made = make_key(principal, now=clock.now(), **more).record  # type: ignore[arg-type]
    # Cut off the microseconds, because the table stores milliseconds.
    return replace(made, created=made.created.replace(microsecond=made.created.microsecond // 1000 * 1000))


async def test_api_key_is_found_by_id(keys: ApiKeys, clock: ManualClock) -> None:
    plain = record(clock)
    expires = clock.now().replace(microsecond=0) + timedelta(days=1)
    full = record(
        clock,
        "bob@example.com",
        agents=frozenset({"one", "two"}),
        scopes=frozenset({"read", "write"}),
        tenant="red",
        expires=expires,
    )
    none_at_all = record(clock, "carol", agents=frozenset())
    for key in (plain, full, none_at_all):
        await keys.add(key)
        assert await keys.find(key.id) == key
    assert await keys.find("a" * 16) is None


async def test_api_key_id_is_unique(keys: ApiKeys, clock: ManualClock) -> None:
    first = record(clock)
    await keys.add(first)
    with pytest.raises(StoreError):
        await keys.add(replace(record(clock, "mallory"), id=first.id))
    assert await keys.find(first.id) == first


async def test_revoked_api_key_is_deleted_at_once(keys: ApiKeys, clock: ManualClock) -> None:
    key, other = record(clock), record(clock)
    await keys.add(key)
    await keys.add(other)
    assert await keys.revoke(key.id) is True
    assert await keys.find(key.id) is None
    assert await keys.revoke(key.id) is False
    assert await keys.find(other.id) == other


async def test_expired_api_key_is_not_found(keys: ApiKeys, clock: ManualClock) -> None:
    key = record(clock, expires=clock.now() + timedelta(hours=1))
    await keys.add(key)
    clock.move(3598)
    assert await keys.find(key.id) is not None
    clock.move(3)
    assert await keys.find(key.id) is None
    assert key.id not in {found.id for found in await keys.all()}
    assert await keys.revoke(key.id) is False


async def test_api_keys_are_listed_newest_first(keys: ApiKeys, clock: ManualClock) -> None:
    made = []
    for principal in ("alice", "bob", "carol"):
        made.append(record(clock, principal))
        await keys.add(made[-1])
        clock.move(1)
    await keys.revoke(made[1].id)
    ours = [found for found in await keys.all() if found.id in {key.id for key in made}]
    assert ours == [made[2], made[0]]
