"""ADK's sessions on DynamoDB: lost responses, stored items and their TTL."""

import random
import zlib
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.sessions.session import Session
from google.genai import types

from aion_core.engine.fenced_writes import Fence
from aion_core.engine.outcomes import TurnStarted
from aion_core.errors import StoreCorrupt, StoreUnavailable
from aion_core.table import keys
from aion_core.table.retries import MAX_LOST_ANSWERS
from aion_core.table.ttl import STATE_GRACE
from tests.runtime.contract.sessions import DynamoDBSessionPlace, said, texts
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.savers import begin, fence_of
from tests.support.stores import new_owner

RETENTION = timedelta(days=30)


@pytest.fixture
def place(stack: Stack, clock: ManualClock) -> DynamoDBSessionPlace:
    return DynamoDBSessionPlace(stack, clock)


@pytest.fixture
def of() -> dict[str, Any]:
    """Return the parameters of a new session."""
    return {"app_name": f"app-of-{new_owner()}", "user_id": new_owner(), "session_id": "c-1"}


async def a_fence(place: DynamoDBSessionPlace, clock: ManualClock) -> Fence:
    return fence_of(await begin(place.tasks, clock))


# ── Lost responses and partial reads ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fenced", [True, False], ids=["in a turn", "outside"])
async def test_session_event_is_stored_once_if_dynamodb_response_is_lost(
    place: DynamoDBSessionPlace, clock: ManualClock, of: dict[str, Any], fenced: bool
) -> None:
    service = place.service(fence=await a_fence(place, clock) if fenced else None)
    place.lose_answers(times=2)
    session = await service.create_session(**of, state={"x": 1})
    place.lose_answers(times=2)
    await service.append_event(session, said("one", state={"x": 2, "user:y": 1}))
    place.lose_answers(times=2)
    await service.append_event(session, said("two"))
    found = await service.get_session(**of)
    assert texts(found) == ["one", "two"]
    assert found is not None
    assert found.state == {"x": 2, "user:y": 1}


async def test_event_appended_again_after_error_is_stored_once(place: DynamoDBSessionPlace, of: dict[str, Any]) -> None:
    service = place.service()
    session = await service.create_session(**of)
    event = said("one", state={"x": 1})
    place.lose_answers(times=MAX_LOST_ANSWERS)
    with pytest.raises(StoreUnavailable):
        await service.append_event(session, event)
    assert texts(session) == []
    await service.append_event(session, event)
    assert texts(session) == ["one"]
    await service.append_event(session, said("two", state={"y": 1}))
    found = await place.service().get_session(**of)
    assert texts(found) == ["one", "two"]
    assert found is not None
    assert found.state == {"x": 1, "y": 1}


async def test_append_to_outdated_session_object_is_not_mistaken_for_retry(
    place: DynamoDBSessionPlace, of: dict[str, Any]
) -> None:
    mine = await place.service().create_session(**of)
    theirs = await place.service().get_session(**of)
    assert theirs is not None
    await place.service().append_event(theirs, said("theirs"))
    with pytest.raises(StaleSessionError):
        await place.service().append_event(mine, said("mine", state={"x": 1}))
    with pytest.raises(AlreadyExistsError):
        await place.service().create_session(**of)


async def test_session_with_missing_event_raises_store_corrupt(place: DynamoDBSessionPlace, of: dict[str, Any]) -> None:
    """Delete one event item: reading the session raises an error instead of returning a shorter history."""
    service = place.service()
    session = await service.create_session(**of, state={"x": 1})
    for n in range(3):
        await service.append_event(session, said(str(n)))
    [row] = [row for row in rows_of(place, session) if row["sk"]["S"].endswith("02")]
    place.client.delete_item(TableName=place.table_name, Key={"pk": row["pk"], "sk": row["sk"]})
    with pytest.raises(StoreCorrupt):
        await place.service().get_session(**of)


@pytest.mark.parametrize("missing", ["EVENT#0000000002", "STATE"])
async def test_session_is_read_again_if_query_returns_partial_transaction(
    place: DynamoDBSessionPlace, of: dict[str, Any], missing: str
) -> None:
    """A DynamoDB query may return only some items of a transaction, so the service repeats the query."""
    service = place.service()
    session = await service.create_session(**of)
    for n in range(2):
        await service.append_event(session, said(str(n), state={"n": n}))
    halves = iter([True, True])

    def see_half(parsed: dict[str, Any], **_: Any) -> None:
        if any(item["sk"]["S"] == "HEAD" for item in parsed.get("Items", ())) and next(halves, False):
            parsed["Items"] = [item for item in parsed["Items"] if item["sk"]["S"] != missing]

    place.client.meta.events.register("after-call.dynamodb.Query", see_half)
    found = await place.service().get_session(**of)
    assert next(halves, None) is None
    assert texts(found) == ["0", "1"]
    assert found is not None
    assert found.state == {"n": 1}


async def test_leftover_items_of_deleted_session_stay_invisible(
    place: DynamoDBSessionPlace, of: dict[str, Any]
) -> None:
    service = place.service()
    session = await service.create_session(**of, state={"x": 1})
    for n in range(3):
        await service.append_event(session, said(f"old {n}"))
    left = [row for row in rows_of(place, session) if row["sk"]["S"] != "HEAD"]
    await service.delete_session(**of)
    assert rows_of(place, session) == []
    for row in left:
        place.client.put_item(TableName=place.table_name, Item=row)
    assert await place.service().get_session(**of) is None
    new = await place.service().create_session(**of)
    await place.service().append_event(new, said("new"))
    found = await place.service().get_session(**of)
    assert texts(found) == ["new"]
    assert found is not None
    assert found.state == {}


def rows_of(place: DynamoDBSessionPlace, session: Session) -> list[dict[str, Any]]:
    """Return the session's items."""
    return place.rows(keys.session_partition(thread_of(session)))


def thread_of(session: Session) -> str:
    return keys.session_thread(session.user_id, session.app_name, session.id)


# ── Stored items ──────────────────────────────────────────────────────────────────────────────────────────────────────

TOKEN = "ya29.a-users-access-token"


async def test_access_token_is_encrypted_in_all_stored_session_data(
    place: DynamoDBSessionPlace, of: dict[str, Any]
) -> None:
    """Store small and large tokens in a credential response, in each scope of the state, and in a tool result."""
    credential = AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=OAuth2Auth(access_token=TOKEN))
    noise = random.Random(1).randbytes(40_000).hex()
    answer = types.FunctionResponse(
        id="1", name="adk_request_credential", response={"exchangedAuthCredential": credential.model_dump(mode="json")}
    )
    service = place.service()
    session = await service.create_session(**of, state={"token": TOKEN, "user:large": noise + TOKEN})
    event = said(TOKEN + noise, state={"credential": credential, "app:token": TOKEN, "large": noise + TOKEN})
    await service.append_event(session, event)
    await service.append_event(
        session, said(TOKEN).model_copy(update={"content": types.Content(parts=[types.Part(function_response=answer)])})
    )
    user = keys.user_state_partition(session.user_id, session.app_name)
    rows = [*rows_of(place, session), *place.rows(user), *place.rows(keys.app_state_partition(session.app_name))]
    objects = [
        *place.objects(f"{keys.owner_folder('sessions', session.user_id)}/{thread_of(session)}/"),
        *place.objects(f"{keys.owner_folder('permanent', session.user_id)}/state/{user.split('#')[1]}/"),
    ]
    assert (len(rows), len(objects)) == (6, 3)
    contents = [row["content"]["M"]["body"]["B"] for row in rows if "body" in row.get("content", {"M": {}})["M"]]
    contents += [place.s3.get_object(Bucket=place.bucket, Key=name)["Body"].read() for name in objects]
    assert len(contents) == 5
    assert not [content for content in contents if TOKEN.encode() in unpacked(content)]
    assert TOKEN not in repr(rows)
    found = await place.service().get_session(**of)
    assert found is not None
    assert AuthCredential.model_validate(found.state["credential"]) == credential
    assert found.state["token"] == TOKEN
    assert found.events[1].get_function_responses()[0].response == answer.response


def unpacked(content: bytes) -> bytes:
    with suppress(zlib.error):
        return zlib.decompress(content)
    return content


async def test_session_content_moved_to_other_item_raises_store_corrupt(
    place: DynamoDBSessionPlace, of: dict[str, Any]
) -> None:
    service = place.service()
    mine, theirs = await service.create_session(**of), await service.create_session(**{**of, "user_id": new_owner()})
    for session in (mine, theirs):
        await service.append_event(session, said("secret"))
    [event] = [row for row in rows_of(place, mine) if row["sk"]["S"].startswith("EVENT#")]
    [other] = [row for row in rows_of(place, theirs) if row["sk"]["S"].startswith("EVENT#")]
    place.client.put_item(TableName=place.table_name, Item={**event, "pk": other["pk"]})
    with pytest.raises(StoreCorrupt):
        await place.service().get_session(app_name=theirs.app_name, user_id=theirs.user_id, session_id=theirs.id)


async def test_replacing_large_user_state_deletes_its_old_s3_object(
    place: DynamoDBSessionPlace, of: dict[str, Any]
) -> None:
    large = random.Random(1).randbytes(40_000).hex()
    session = await place.service().create_session(**of, state={"user:x": large})
    folder = f"{keys.owner_folder('permanent', of['user_id'])}/state/"
    assert len(place.objects(folder)) == 1
    service = place.service()
    session = await service.get_session(**of) or session
    for value in (large + "2", large + "3"):
        await service.append_event(session, said("x", state={"user:x": value}))
        assert len(place.objects(folder)) == 1
    await service.append_event(session, said("x", state={"user:x": "small"}))
    assert place.objects(folder) == []


# ── TTL ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_expired_session_may_be_created_again(
    place: DynamoDBSessionPlace, clock: ManualClock, of: dict[str, Any]
) -> None:
    service = place.service(retention=RETENTION)
    session = await service.create_session(**of, state={"x": 1, "user:y": 1, "app:z": 1})
    await service.append_event(session, said("old"))
    clock.move((RETENTION + STATE_GRACE).total_seconds() - 1)
    assert texts(await place.service().get_session(**of)) == ["old"]
    clock.move(1)
    assert await place.service().get_session(**of) is None
    listed = await place.service().list_sessions(app_name=of["app_name"], user_id=of["user_id"])
    assert listed.sessions == []
    new = await place.service().create_session(**of)
    assert (new.events, new.state) == ([], {"user:y": 1, "app:z": 1})


async def test_regularly_used_session_loses_no_event(
    place: DynamoDBSessionPlace, clock: ManualClock, of: dict[str, Any]
) -> None:
    """A session in use keeps its events: none of its items expires before its head item, and its S3 objects are renewed."""
    written: dict[str, float] = {}
    place.s3.meta.events.register(
        "provide-client-params.s3.PutObject",
        lambda params, **_: written.update({params["Key"]: clock.now().timestamp()}),
    )
    large = random.Random(1).randbytes(40_000).hex()
    fence = await a_fence(place, clock)
    session = await place.service(fence=fence, retention=RETENTION).create_session(**of, state={"x": large})
    said_so: list[str] = []
    for days in (0, 1, 29, 1, 6, 29, 29, 3, 29):
        clock.move(days * 86400)
        service = place.service(fence=fence, retention=RETENTION)
        found = await service.get_session(**of)
        assert texts(found) == said_so
        assert found is not None
        assert found.state == {"x": large}
        said_so.append(f"{len(said_so)} {large if not said_so else ''}")
        await service.append_event(found, said(said_so[-1]))
        [head] = [row for row in rows_of(place, session) if row["sk"]["S"] == "HEAD"]
        for row in rows_of(place, session):
            assert int(row["expires"]["N"]) >= int(head["expires"]["N"])
        assert len(written) == 2
        for at in written.values():
            # The session must expire before its objects, because the bucket's lifecycle rule deletes an object after
            # one and a half times the retention.
            assert int(head["expires"]["N"]) <= at + 1.5 * RETENTION.total_seconds()


async def test_consecutive_appends_renew_ttl_of_session_only_once(
    place: DynamoDBSessionPlace, clock: ManualClock, of: dict[str, Any]
) -> None:
    fence = await a_fence(place, clock)
    session = await place.service(fence=fence, retention=RETENTION).create_session(**of)
    await place.service(fence=fence, retention=RETENTION).append_event(session, said("one"))
    clock.move(10 * 86400)
    writes: list[str] = []
    place.client.meta.events.register(
        "before-call.dynamodb.TransactWriteItems", lambda params, **_: writes.append(params["body"])
    )
    for text in ("two", "three"):
        service = place.service(fence=fence, retention=RETENTION)
        found = await service.get_session(**of)
        assert found is not None
        await service.append_event(found, said(text))
    assert len(writes) == 3


async def test_session_deleted_during_ttl_renewal_stays_deleted(
    place: DynamoDBSessionPlace, clock: ManualClock, of: dict[str, Any]
) -> None:
    fence = await a_fence(place, clock)
    session = await place.service(fence=fence, retention=RETENTION).create_session(**of, state={"x": 1})
    await place.service(fence=fence, retention=RETENTION).append_event(session, said("one"))
    rows = rows_of(place, session)
    clock.move(20 * 86400)

    def delete(**_: Any) -> None:
        for row in rows:
            place.client.delete_item(TableName=place.table_name, Key={"pk": row["pk"], "sk": row["sk"]})

    place.client.meta.events.register_first("before-call.dynamodb.TransactWriteItems", delete)
    await place.service(fence=fence, retention=RETENTION).get_session(**of)
    assert rows_of(place, session) == []


async def test_read_of_session_outside_turn_does_not_renew_ttl(
    place: DynamoDBSessionPlace, clock: ManualClock, of: dict[str, Any]
) -> None:
    session = await place.service(retention=RETENTION).create_session(**of, state={"x": 1})
    before = rows_of(place, session)
    clock.move(20 * 86400)
    await place.service(retention=RETENTION).get_session(**of)
    assert rows_of(place, session) == before


async def test_next_lease_holder_reads_last_session_event(
    place: DynamoDBSessionPlace, clock: ManualClock, of: dict[str, Any]
) -> None:
    begun = await begin(place.tasks, clock)
    session = await place.service(fence=fence_of(begun)).create_session(**of)
    await place.service(fence=fence_of(begun)).append_event(session, said("one", state={"x": 1}))
    clock.move(60)
    taken = await place.tasks.begin(begun.lease.context, holder="holder-2")
    assert isinstance(taken, TurnStarted)
    found = await place.service(fence=fence_of(taken)).get_session(**of)
    assert texts(found) == ["one"]
