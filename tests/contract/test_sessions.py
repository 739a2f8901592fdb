"""What ADK's session services promise, in memory and on DynamoDB."""

import asyncio

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session

from aion_core.checkpointing.turn import Fence
from aion_core.errors import LeaseLost
from aion_core.sessions.service import StoredSessions
from tests.support.clock import ManualClock
from tests.support.engines import Stack
from tests.support.savers import begin, fence_of
from tests.support.sessions import DynamoDBSessionPlace, MemorySessionPlace, SessionPlace, said, texts
from tests.support.stores import LEASE_SECONDS, new_owner


@pytest.fixture
def place(adapter: Stack | None, clock: ManualClock) -> SessionPlace:
    return MemorySessionPlace(clock) if adapter is None else DynamoDBSessionPlace(adapter, clock)


@pytest.fixture
def service(place: SessionPlace) -> StoredSessions:
    return place.service()


@pytest.fixture
def user() -> str:
    return new_owner()


@pytest.fixture
def app() -> str:
    return f"app-of-{new_owner()}"


async def read(place: SessionPlace, like: Session, **config: object) -> Session | None:
    """The session as the next turn finds it."""
    return await place.service().get_session(
        app_name=like.app_name,
        user_id=like.user_id,
        session_id=like.id,
        config=GetSessionConfig.model_validate(config) if config else None,
    )


async def test_what_is_appended_is_there_for_the_next_turn(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    session = await service.create_session(app_name=app, user_id=user, session_id="c-1", state={"x": 1})
    for text in ("one", "two", "three"):
        await service.append_event(session, said(text, timestamp=7.25, last=text))
    assert texts(session) == ["one", "two", "three"]
    found = await read(place, session)
    assert found is not None
    assert texts(found) == ["one", "two", "three"]
    assert found.state == session.state == {"x": 1, "last": "three"}
    assert found.last_update_time == session.last_update_time == 7.25
    assert found.events == session.events


async def test_there_is_no_session_before_it_is_created(service: StoredSessions, app: str, user: str) -> None:
    assert await service.get_session(app_name=app, user_id=user, session_id="c-1") is None


async def test_a_session_is_created_once(place: SessionPlace, app: str, user: str) -> None:
    first = await place.service().create_session(app_name=app, user_id=user, session_id="c-1", state={"x": 1})
    with pytest.raises(AlreadyExistsError):
        await place.service().create_session(app_name=app, user_id=user, session_id="c-1", state={"x": 2, "user:y": 2})
    found = await read(place, first)
    assert found is not None
    assert found.state == {"x": 1}


async def test_what_was_read_before_another_wrote_is_refused(place: SessionPlace, app: str, user: str) -> None:
    first = await place.service().create_session(app_name=app, user_id=user, session_id="c-1")
    late = await read(place, first)
    assert late is not None
    await place.service().append_event(first, said("one"))
    with pytest.raises(StaleSessionError):
        await place.service().append_event(late, said("two", x=1, user__x=1))
    found = await read(place, first)
    assert texts(found) == ["one"]
    assert found is not None
    assert found.state == {}


async def test_a_late_workers_write_is_refused(place: SessionPlace, clock: ManualClock, app: str, user: str) -> None:
    begun = await begin(place.tasks, clock)
    late = place.service(fence=fence_of(begun))
    session = await late.create_session(app_name=app, user_id=user, session_id="c-1")
    await late.append_event(session, said("one"))
    clock.move(LEASE_SECONDS + 1)
    taken = await place.tasks.begin(begun.lease.context, holder="holder-2")
    assert taken is not None
    with pytest.raises(LeaseLost):
        await late.append_event(session, said("late"))
    with pytest.raises(LeaseLost):
        await late.create_session(app_name=app, user_id=user, session_id="c-2")
    with pytest.raises(LeaseLost):
        await late.delete_session(app_name=app, user_id=user, session_id="c-1")
    now = place.service(fence=Fence(taken.lease.context, taken.lease.fence))
    found = await now.get_session(app_name=app, user_id=user, session_id="c-1")
    assert found is not None
    await now.append_event(found, said("two"))
    assert texts(await read(place, session)) == ["one", "two"]


async def test_branches_that_append_at_the_same_instant_lose_nothing(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    session = await service.create_session(app_name=app, user_id=user, session_id="c-1")
    names = [f"branch {n}" for n in range(10)]
    await asyncio.gather(*(service.append_event(session, said(name, **{f"k{name}": 1})) for name in names))
    found = await read(place, session)
    assert sorted(texts(found)) == names
    assert texts(found) == texts(session)
    assert found is not None
    assert len(found.state) == 10


async def test_a_session_that_is_deleted_takes_no_more_events(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    session = await service.create_session(app_name=app, user_id=user, session_id="c-1", state={"x": 1, "user:y": 2})
    await service.append_event(session, said("one"))
    await service.delete_session(app_name=app, user_id=user, session_id="c-1")
    await service.delete_session(app_name=app, user_id=user, session_id="c-1")
    assert await read(place, session) is None
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, said("two", x=3))
    assert await service.get_user_state(app_name=app, user_id=user) == {"y": 2}
