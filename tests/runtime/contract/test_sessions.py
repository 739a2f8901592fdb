"""Contract of ADK session services, in memory and on DynamoDB."""

import asyncio
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi.openapi.models import OAuth2, OAuthFlowAuthorizationCode, OAuthFlows
from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.auth.auth_tool import AuthConfig
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event, NodeInfo
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

from aion_core.engine.fenced_writes import Fence
from aion_core.engine.outcomes import TurnStarted
from aion_core.errors import AgentFailed, LeaseLost
from aion_core.state.adk.serialization import UnserializableSession
from aion_core.state.adk.session_service import StoredSessions
from tests.runtime.contract.sessions import DynamoDBSessionPlace, SessionPlace, memory_sessions, said, texts
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.savers import begin, fence_of
from tests.support.stores import LEASE_SECONDS, new_owner


@pytest.fixture
def place(adapter: Stack | None, clock: ManualClock) -> SessionPlace:
    if adapter is None:
        return memory_sessions(clock)
    return DynamoDBSessionPlace(adapter, clock)


@pytest.fixture
def service(place: SessionPlace) -> StoredSessions:
    return place.service()


@pytest.fixture
def user() -> str:
    return new_owner()


@pytest.fixture
def app() -> str:
    return f"app-of-{new_owner()}"


async def read_session(place: SessionPlace, like: Session, **config: object) -> Session | None:
    """Return the session as a new service reads it."""
    return await place.service().get_session(
        app_name=like.app_name,
        user_id=like.user_id,
        session_id=like.id,
        config=GetSessionConfig.model_validate(config) if config else None,
    )


async def test_appended_session_events_are_read_by_another_service(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    session = await service.create_session(app_name=app, user_id=user, session_id="c-1", state={"x": 1})
    for text in ("one", "two", "three"):
        await service.append_event(session, said(text, timestamp=7.25, state={"last": text}))
    assert texts(session) == ["one", "two", "three"]
    found = await read_session(place, session)
    assert found is not None
    assert texts(found) == ["one", "two", "three"]
    assert found.state == session.state == {"x": 1, "last": "three"}
    assert found.last_update_time == session.last_update_time == 7.25
    assert found.events == session.events


async def test_get_of_missing_session_returns_none(service: StoredSessions, app: str, user: str) -> None:
    assert await service.get_session(app_name=app, user_id=user, session_id="c-1") is None


async def test_session_is_created_once(place: SessionPlace, app: str, user: str) -> None:
    first = await place.service().create_session(app_name=app, user_id=user, session_id="c-1", state={"x": 1})
    with pytest.raises(AlreadyExistsError):
        await place.service().create_session(app_name=app, user_id=user, session_id="c-1", state={"x": 2, "user:y": 2})
    found = await read_session(place, first)
    assert found is not None
    assert found.state == {"x": 1}


async def test_outdated_session_object_cannot_append_event(place: SessionPlace, app: str, user: str) -> None:
    first = await place.service().create_session(app_name=app, user_id=user, session_id="c-1")
    service = place.service()
    late = await service.get_session(app_name=app, user_id=user, session_id="c-1")
    assert late is not None
    await place.service().append_event(first, said("one"))
    for by in (service, place.service()):
        with pytest.raises(StaleSessionError):
            await by.append_event(late, said("two", state={"x": 1, "user:x": 1}))
    found = await read_session(place, first)
    assert texts(found) == ["one"]
    assert found is not None
    assert found.state == {}


async def test_session_write_after_lost_lease_is_refused(
    place: SessionPlace, clock: ManualClock, app: str, user: str
) -> None:
    begun = await begin(place.tasks, clock)
    late = place.service(fence=fence_of(begun))
    session = await late.create_session(app_name=app, user_id=user, session_id="c-1")
    await late.append_event(session, said("one"))
    clock.move(LEASE_SECONDS + 1)
    taken = await place.tasks.begin(begun.lease.context, holder="holder-2")
    assert isinstance(taken, TurnStarted)
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
    assert texts(await read_session(place, session)) == ["one", "two"]


async def test_attempts_of_turn_are_counted_anew_after_session_event(
    place: SessionPlace, clock: ManualClock, app: str, user: str
) -> None:
    begun = await begin(place.tasks, clock)
    session, counted = None, []
    for stores in (True, True, True, False):
        service = place.service(fence=fence_of(begun))
        key: dict[str, Any] = {"app_name": app, "user_id": user, "session_id": "c-1"}
        session = await service.get_session(**key) if session else await service.create_session(**key)
        assert session is not None
        if stores:
            await service.append_event(session, said("one"))
        clock.move(LEASE_SECONDS + 1)
        taken = await place.tasks.begin(begun.lease.context, holder="holder-2")
        assert isinstance(taken, TurnStarted)
        begun = taken
        counted.append((begun.lease.turn.tries, begun.lease.turn.handoffs))
    assert counted == [(2, 0), (2, 1), (2, 2), (3, 2)]


async def test_events_appended_concurrently_by_branches_are_all_stored(
    place: SessionPlace, app: str, user: str
) -> None:
    service = place.service()
    session = await service.create_session(app_name=app, user_id=user, session_id="c-1")
    names = [f"branch {n}" for n in range(5)]
    await asyncio.gather(*(service.append_event(session, said(name, state={name: 1})) for name in names))
    found = await read_session(place, session)
    assert sorted(texts(found)) == names
    assert texts(found) == texts(session)
    assert found is not None
    assert len(found.state) == 5


async def test_deleted_session_refuses_events(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    session = await service.create_session(app_name=app, user_id=user, session_id="c-1", state={"x": 1, "user:y": 2})
    await service.append_event(session, said("one"))
    await service.delete_session(app_name=app, user_id=user, session_id="c-1")
    await service.delete_session(app_name=app, user_id=user, session_id="c-1")
    assert await read_session(place, session) is None
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, said("two", state={"x": 3}))
    assert await service.get_user_state(app_name=app, user_id=user) == {"y": 2}


# ── Session state ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_session_state_key_prefix_decides_scope_of_value(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    state = {"app:a": 1, "user:u": 2, "s": 3, "temp:t": 4}
    session = await service.create_session(app_name=app, user_id=user, session_id="c-1", state=state)
    assert session.state == {"app:a": 1, "user:u": 2, "s": 3}
    await service.append_event(session, said("x", state={"app:b": 5, "user:u": 6, "s": None, "temp:t": 7}))
    assert session.state == {"app:a": 1, "app:b": 5, "user:u": 6, "s": None, "temp:t": 7}
    found = await read_session(place, session)
    assert found is not None
    assert found.state == {"app:a": 1, "app:b": 5, "user:u": 6, "s": None}
    assert found.events[0].actions.state_delta == {"app:b": 5, "user:u": 6, "s": None}
    assert await service.get_user_state(app_name=app, user_id=user) == {"u": 6}
    same_user = await place.service().create_session(app_name=app, user_id=user)
    assert same_user.state == {"app:a": 1, "app:b": 5, "user:u": 6}
    another = await place.service().create_session(app_name=app, user_id=new_owner(), session_id="c-1")
    assert another.state == {"app:a": 1, "app:b": 5}
    elsewhere = await place.service().create_session(app_name=f"{app}-2", user_id=user, session_id="c-1")
    assert elsewhere.state == {}


async def test_concurrent_changes_of_shared_state_are_stored(place: SessionPlace, app: str, user: str) -> None:
    services = [place.service() for _ in range(5)]
    sessions = [await service.create_session(app_name=app, user_id=user) for service in services]
    await asyncio.gather(
        *(
            service.append_event(session, said("x", state={f"user:{n}": n, f"app:{n}": n}))
            for n, (service, session) in enumerate(zip(services, sessions, strict=True))
        )
    )
    found = await read_session(place, sessions[0])
    assert found is not None
    assert found.state == {f"{scope}:{n}": n for scope in ("user", "app") for n in range(5)}


async def test_session_state_is_stored_as_plain_data(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    session = await service.create_session(
        app_name=app, user_id=user, session_id="c-1", state={"n": [1.5, {"x": None}]}
    )
    odd = {"at": datetime(2020, 1, 1, tzinfo=UTC), "f": print, "half": "\ud83d", "": "", "user:" + 2000 * "k": 1}
    await service.append_event(session, said("x", state=odd))
    found = await read_session(place, session)
    assert found is not None
    assert found.state == {
        "n": [1.5, {"x": None}],
        "at": "2020-01-01T00:00:00Z",
        "f": repr(print),
        "half": "\ud83d",
        "": "",
        "user:" + 2000 * "k": 1,
    }


async def test_unserializable_session_event_stores_nothing(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    session = await service.create_session(app_name=app, user_id=user, session_id="c-1")
    for event in (said("x", state={"x": b"\xff"}), said("x", output=object())):
        with pytest.raises(AgentFailed):
            await service.append_event(session, event)
    await service.append_event(session, said("y"))
    assert texts(await read_session(place, session)) == ["y"]


async def test_changed_session_object_does_not_change_stored_state(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    session = await service.create_session(
        app_name=app, user_id=user, session_id="c-1", state={"x": [1], "user:x": [1], "app:x": [1]}
    )
    for key in list(session.state):
        session.state[key].append(2)
    found = await read_session(place, session)
    assert found is not None
    assert found.state == {"x": [1], "user:x": [1], "app:x": [1]}


# ── Session events ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_unserializable_tool_result_is_named_in_error(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    session = await service.create_session(app_name=app, user_id=user)
    result = types.FunctionResponse(name="find", response={"found": object()})
    event = Event(author="helper", content=types.UserContent(types.Part(function_response=result)))
    with pytest.raises(UnserializableSession, match=r"result of the tool 'find' has a value \(object\)"):
        await service.append_event(session, event)


async def test_partial_session_event_is_not_stored(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    session = await service.create_session(app_name=app, user_id=user, session_id="c-1")
    event = said("del", partial=True, state={"x": 1, "temp:y": 1})
    assert await service.append_event(session, event) is event
    assert (session.events, session.state) == ([], {})
    found = await read_session(place, session)
    assert found is not None
    assert (found.events, found.state) == ([], {})


async def test_all_fields_of_session_event_are_stored(place: SessionPlace, app: str, user: str) -> None:
    config = AuthConfig(
        auth_scheme=OAuth2(
            flows=OAuthFlows(
                authorizationCode=OAuthFlowAuthorizationCode(
                    authorizationUrl="https://a", tokenUrl="https://t", scopes={}
                )
            )
        ),
        exchanged_auth_credential=AuthCredential(
            auth_type=AuthCredentialTypes.OAUTH2, oauth2=OAuth2Auth(access_token="token")
        ),
    )
    event = Event(
        author="tool",
        invocation_id="turn-1",
        branch="root.left",
        isolation_scope="call-1",
        long_running_tool_ids={"call-1", "call-2"},
        custom_metadata={"a": None, "b": [1]},
        node_info=NodeInfo(path="root/left@1", output_for=["root"]),
        output={"x": 1},
        error_code="E",
        turn_complete=True,
        usage_metadata=types.GenerateContentResponseUsageMetadata(total_token_count=7),
        content=types.Content(
            role="model",
            parts=[
                types.Part(text="grüezi \ud83d", thought=True, thought_signature=b"\xff\xfb"),
                types.Part(inline_data=types.Blob(data=bytes(range(256)), mime_type="a/b")),
                types.Part(function_call=types.FunctionCall(id="call-1", name="f", args={"x": None})),
                types.Part(function_response=types.FunctionResponse(id="call-1", name="f", response={"y": [None]})),
            ],
        ),
        actions=EventActions(
            agent_state={"current": "left", "none": None},
            end_of_agent=True,
            escalate=True,
            transfer_to_agent="left",
            artifact_delta={"a.png": 3},
            skip_summarization=True,
            requested_auth_configs={"call-1": config},
            requested_tool_confirmations={"call-2": ToolConfirmation(hint="sure?", payload={"n": 1})},
            compaction=EventCompaction(
                start_timestamp=1, end_timestamp=2, compacted_content=types.Content(role="user")
            ),
        ),
    )
    service = place.service()
    session = await service.create_session(app_name=app, user_id=user, session_id="c-1")
    await service.append_event(session, event)
    found = await read_session(place, session)
    assert found is not None
    assert found.events == [event]
    assert found.events[0].actions.requested_auth_configs["call-1"] == config


async def test_get_session_returns_only_requested_events(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    session = await service.create_session(app_name=app, user_id=user, session_id="c-1")
    for n in range(6):
        await service.append_event(session, said(str(n), timestamp=10.0 + n))

    async def read_texts(**config: object) -> str:
        return "".join(texts(await read_session(place, session, **config)))

    assert await read_texts(num_recent_events=0) == ""
    assert await read_texts(num_recent_events=1) == "5"
    assert await read_texts(num_recent_events=4) == "2345"
    assert await read_texts(num_recent_events=9) == "012345"
    assert await read_texts(after_timestamp=13.0) == "345"
    assert await read_texts(after_timestamp=99.0) == ""
    assert await read_texts(after_timestamp=0.0) == "012345"
    assert await read_texts(num_recent_events=2, after_timestamp=12.0) == "45"
    assert await read_texts(num_recent_events=4, after_timestamp=14.0) == "45"


async def test_session_object_loaded_without_events_can_append(place: SessionPlace, app: str, user: str) -> None:
    first = await place.service().create_session(app_name=app, user_id=user, session_id="c-1", state={"x": 1})
    await place.service().append_event(first, said("one"))
    part = await read_session(place, first, num_recent_events=0)
    assert part is not None
    await place.service().append_event(part, said("two", state={"y": 2}))
    found = await read_session(place, first)
    assert texts(found) == ["one", "two"]
    assert found is not None
    assert found.state == {"x": 1, "y": 2}


async def test_repeated_session_event_is_stored_once(place: SessionPlace, app: str, user: str) -> None:
    session = await place.service().create_session(app_name=app, user_id=user, session_id="c-1")
    before = session.model_copy(deep=True)
    event = said("one", state={"x": 1})
    again = event.model_copy(deep=True)
    await place.service().append_event(session, event)
    assert await place.service().append_event(session, event) is event
    assert texts(session) == ["one"]
    # Append the stored event again through a Session object that lacks it: the service must not store it twice.
    await place.service().append_event(before, again)
    assert texts(before) == ["one"]
    await place.service().append_event(before, said("two"))
    found = await read_session(place, session)
    assert texts(found) == ["one", "two"]
    assert found is not None
    assert found.state == {"x": 1}


async def test_only_session_object_with_last_event_can_append(place: SessionPlace, app: str, user: str) -> None:
    stored = await place.service().create_session(app_name=app, user_id=user, session_id="c-1")
    by_hand = Session(id="c-1", app_name=app, user_id=user)
    await place.service().append_event(by_hand, said("one"))
    with pytest.raises(StaleSessionError):
        await place.service().append_event(Session(id="c-1", app_name=app, user_id=user), said("two"))
    last = Session(id="c-1", app_name=app, user_id=user, events=by_hand.events[-1:])
    await place.service().append_event(last, said("three"))
    assert texts(await read_session(place, stored)) == ["one", "three"]
    with pytest.raises(SessionNotFoundError):
        await place.service().append_event(Session(id="c-2", app_name=app, user_id=user), said("x"))


async def test_recreated_session_refuses_old_session_object(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    old = await service.create_session(app_name=app, user_id=user, session_id="c-1", state={"x": 1})
    await service.append_event(old, said("old"))
    await place.service().delete_session(app_name=app, user_id=user, session_id="c-1")
    new = await place.service().create_session(app_name=app, user_id=user, session_id="c-1")
    await place.service().append_event(new, said("new"))
    with pytest.raises(StaleSessionError):
        await service.append_event(old, said("late"))
    found = await read_session(place, new)
    assert texts(found) == ["new"]
    assert found is not None
    assert found.state == {}


# ── Lists of sessions ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_sessions_are_listed_by_last_change(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    assert (await service.list_sessions(app_name=app, user_id=user)).sessions == []
    for name in ("c-1", "c-2", "c-3"):
        await service.create_session(app_name=app, user_id=user, session_id=name, state={"x": name, "user:y": 1})
    await service.create_session(app_name=app, user_id=new_owner(), session_id="foreign")
    await service.create_session(app_name=f"{app}-2", user_id=user, session_id="elsewhere")
    await service.delete_session(app_name=app, user_id=user, session_id="c-2")
    first = await service.get_session(app_name=app, user_id=user, session_id="c-1")
    assert first is not None
    await service.append_event(first, said("x", timestamp=4_000_000_000.5))
    listed = (await service.list_sessions(app_name=app, user_id=user)).sessions
    assert [session.id for session in listed] == ["c-3", "c-1"]
    assert listed[1].last_update_time == 4_000_000_000.5
    assert [session.state for session in listed] == [{"x": "c-3", "user:y": 1}, {"x": "c-1", "user:y": 1}]
    assert [session.events for session in listed] == [[], []]


async def test_sessions_are_not_listed_across_users(service: StoredSessions, app: str) -> None:
    with pytest.raises(NotImplementedError, match="user_id"):
        await service.list_sessions(app_name=app)


async def test_missing_session_id_is_generated(place: SessionPlace, app: str, user: str) -> None:
    sessions = [await place.service().create_session(app_name=app, user_id=user) for _ in range(2)]
    assert len({session.id for session in sessions} - {""}) == 2
    assert [await read_session(place, session) is not None for session in sessions] == [True, True]


async def test_session_names_with_separators_do_not_collide(place: SessionPlace, app: str) -> None:
    names = [("a#b", "c"), ("a", "b#c"), ("a\0b", "c"), ("a", "b\0c")]
    for user, name in names:
        await place.service().create_session(app_name=app, user_id=user, session_id=name, state={"user:of": user})
    for user, name in names:
        found = await place.service().get_session(app_name=app, user_id=user, session_id=name)
        assert found is not None
        assert found.state == {"user:of": user}


# ── Large values ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_session_content_larger_than_item_is_stored(place: SessionPlace, app: str, user: str) -> None:
    large = random.Random(1).randbytes(450_000).hex()
    service = place.service()
    session = await service.create_session(
        app_name=app, user_id=user, session_id="c-1", state={"x": large, "user:x": large + "u"}
    )
    await service.append_event(session, said(large, state={"y": large, "app:y": large + "a"}))
    # Replace a shared value, so that the service deletes the blob of the old value.
    await service.append_event(session, said("small", state={"user:x": large + "v", "app:y": 1}))
    found = await read_session(place, session)
    assert texts(found) == [large, "small"]
    assert found is not None
    assert found.state == {"x": large, "y": large, "user:x": large + "v", "app:y": 1}


async def test_shared_state_larger_than_one_transaction_is_stored(place: SessionPlace, app: str, user: str) -> None:
    service = place.service()
    many = {f"user:{n}": n for n in range(60)} | {f"app:{n}": n for n in range(50)}
    session = await service.create_session(app_name=app, user_id=user, session_id="c-1")
    await service.append_event(session, said("x", state=many))
    found = await read_session(place, session)
    assert found is not None
    assert found.state == many


async def test_long_session_history_is_read_completely(place: SessionPlace, app: str, user: str) -> None:
    noise = random.Random(2)
    service = place.service()
    session = await service.create_session(app_name=app, user_id=user, session_id="c-1")
    lines = [f"{n} {noise.randbytes(16_000).hex() if n < 70 else ''}" for n in range(105)]
    for text in lines:
        await service.append_event(session, said(text))
    assert texts(await read_session(place, session)) == lines
    assert texts(await read_session(place, session, num_recent_events=100)) == lines[5:]
