"""Contract of ADK's artifact service over each blob store."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from aion_core.aws.blobs import S3Blobs
from aion_core.aws.client import AwsClient
from aion_core.state.adk.artifacts import BlobArtifacts
from tests.support import databases
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.stores import new_owner


@pytest.fixture
def artifacts(
    adapter: Stack | None, clock: ManualClock, tmp_path: Path, request: pytest.FixtureRequest
) -> BlobArtifacts:
    if adapter:
        return on_s3(adapter, clock)
    return BlobArtifacts(databases.local_blobs(request.node.callspec.params["adapter"], clock, tmp_path), clock)


def on_s3(stack: Stack, clock: ManualClock, client: Any = None) -> BlobArtifacts:
    s3 = AwsClient("s3", ThreadPoolExecutor(8), client=client or stack.client("s3"))
    return BlobArtifacts(S3Blobs(s3, bucket=stack.environment("ApiFunction")["AION_BUCKET"]), clock)


@pytest.fixture
def of() -> dict[str, Any]:
    """Return the parameters of a new session."""
    return {"app_name": "app", "user_id": new_owner(), "session_id": "c-1"}


def a_file(data: bytes = b"\x00\xff", mime_type: str = "image/png") -> types.Part:
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type, display_name="a picture"))


async def test_artifact_versions_count_from_zero(artifacts: BlobArtifacts, of: dict[str, Any]) -> None:
    parts = [a_file(bytes([n])) for n in range(12)]
    saved = [await artifacts.save_artifact(**of, filename="a.png", artifact=part) for part in parts]
    assert saved == list(range(12)) == await artifacts.list_versions(**of, filename="a.png")
    loaded = [await artifacts.load_artifact(**of, filename="a.png", version=n) for n in range(12)]
    assert loaded == parts
    assert await artifacts.load_artifact(**of, filename="a.png") == parts[-1]


@pytest.mark.parametrize(
    "part",
    [
        types.Part(text="grüezi \ud83d"),
        types.Part(text=""),
        a_file(b"", "text/x"),
        a_file(bytes(range(256)), "no media type \n at all"),
        types.Part(file_data=types.FileData(file_uri="https://example.com/" + 3000 * "x", mime_type="a/b")),
        types.Part(inline_data=types.Blob(data=b"x"), thought_signature=b"\xff\xfe"),
    ],
    ids=["text", "no text", "no bytes", "odd type", "elsewhere", "signed"],
)
async def test_saved_artifact_part_is_loaded_unchanged(
    artifacts: BlobArtifacts, of: dict[str, Any], part: types.Part
) -> None:
    await artifacts.save_artifact(**of, filename="a", artifact=part)
    assert await artifacts.load_artifact(**of, filename="a") == part


async def test_artifact_part_may_be_a_dict(artifacts: BlobArtifacts, of: dict[str, Any]) -> None:
    await artifacts.save_artifact(**of, filename="a", artifact={"inlineData": {"data": "AP8=", "mimeType": "a/b"}})
    loaded = await artifacts.load_artifact(**of, filename="a")
    assert loaded == types.Part(inline_data=types.Blob(data=b"\x00\xff", mime_type="a/b"))


async def test_missing_artifact_loads_as_none(artifacts: BlobArtifacts, of: dict[str, Any]) -> None:
    assert await artifacts.load_artifact(**of, filename="a") is None
    await artifacts.save_artifact(**of, filename="a", artifact=a_file())
    assert await artifacts.load_artifact(**of, filename="a", version=1) is None
    assert await artifacts.load_artifact(**of, filename="a", version=-1) is None
    assert await artifacts.get_artifact_version(**of, filename="a", version=1) is None
    assert await artifacts.get_artifact_version(**of, filename="b") is None
    assert await artifacts.list_versions(**of, filename="b") == []
    assert await artifacts.list_artifact_versions(**of, filename="b") == []
    await artifacts.delete_artifact(**of, filename="b")


async def test_user_scoped_artifact_is_visible_in_every_session_of_user(
    artifacts: BlobArtifacts, of: dict[str, Any]
) -> None:
    here = a_file(b"here")
    await artifacts.save_artifact(**of, filename="user:a/b", artifact=here)
    await artifacts.save_artifact(**of, filename="a/b", artifact=a_file(b"session"))
    await artifacts.save_artifact(**of, filename="a", artifact=a_file(b"nested"))
    assert await artifacts.list_artifact_keys(**of) == ["a", "a/b", "user:a/b"]
    other = {**of, "session_id": "c-2"}
    assert await artifacts.list_artifact_keys(**other) == ["user:a/b"]
    assert await artifacts.load_artifact(**other, filename="user:a/b") == here
    assert await artifacts.load_artifact(**other, filename="a/b") is None
    alone = {name: of[name] for name in ("app_name", "user_id")}
    assert await artifacts.list_artifact_keys(**alone) == ["user:a/b"]
    assert await artifacts.load_artifact(**alone, filename="user:a/b") == here
    for foreign in ({**of, "user_id": new_owner()}, {**of, "app_name": "another"}):
        assert await artifacts.list_artifact_keys(**foreign) == []
        assert await artifacts.load_artifact(**foreign, filename="user:a/b") is None


@pytest.mark.parametrize("name", ["..", ".", "a b+c?d#e%2F", "日本語", "user", "/", "x/../y", "0"])
async def test_artifact_may_have_any_file_name(artifacts: BlobArtifacts, of: dict[str, Any], name: str) -> None:
    await artifacts.save_artifact(**of, filename=name, artifact=a_file(name.encode()))
    assert await artifacts.list_artifact_keys(**of) == [name]
    assert await artifacts.load_artifact(**of, filename=name) == a_file(name.encode())


async def test_artifact_of_session_with_id_user_is_not_user_scoped(
    artifacts: BlobArtifacts, of: dict[str, Any]
) -> None:
    """In ADK's own services the path `user/` holds a user's artifacts, so the session id `user` is ambiguous there."""
    await artifacts.save_artifact(**{**of, "session_id": "user"}, filename="a", artifact=a_file())
    assert await artifacts.list_artifact_keys(**of) == []


async def test_artifact_versions_restart_at_zero_after_deletion(artifacts: BlobArtifacts, of: dict[str, Any]) -> None:
    for name in ("a", "a", "ab", "a/b"):
        await artifacts.save_artifact(**of, filename=name, artifact=a_file())
    await artifacts.delete_artifact(**of, filename="a")
    assert await artifacts.list_artifact_keys(**of) == ["a/b", "ab"]
    assert await artifacts.load_artifact(**of, filename="a") is None
    assert await artifacts.save_artifact(**of, filename="a", artifact=a_file()) == 0


async def test_concurrent_artifact_saves_get_different_versions(artifacts: BlobArtifacts, of: dict[str, Any]) -> None:
    parts = [a_file(bytes([n])) for n in range(5)]
    saved = await asyncio.gather(*(artifacts.save_artifact(**of, filename="a", artifact=part) for part in parts))
    assert sorted(saved) == [0, 1, 2, 3, 4]
    for number, part in zip(saved, parts, strict=True):
        assert await artifacts.load_artifact(**of, filename="a", version=number) == part


@pytest.mark.exact_times
async def test_each_artifact_version_has_metadata(
    artifacts: BlobArtifacts, of: dict[str, Any], clock: ManualClock
) -> None:
    metadata = {"from": "tool", "n": [1, None]}
    await artifacts.save_artifact(**of, filename="a", artifact=a_file(), custom_metadata=metadata)
    first = clock.now().timestamp()
    clock.move(5)
    await artifacts.save_artifact(**of, filename="a", artifact=types.Part(text="x"))
    one, two = await artifacts.list_artifact_versions(**of, filename="a")
    assert (one.version, one.mime_type, one.custom_metadata, one.create_time) == (0, "image/png", metadata, first)
    assert (two.version, two.mime_type, two.custom_metadata, two.create_time) == (1, "text/plain", {}, first + 5)
    assert await artifacts.get_artifact_version(**of, filename="a") == two
    assert await artifacts.get_artifact_version(**of, filename="a", version=0) == one


async def test_reference_to_artifact_of_another_user_or_session_is_refused(
    artifacts: BlobArtifacts, of: dict[str, Any]
) -> None:
    await artifacts.save_artifact(**of, filename="a", artifact=a_file(b"v0"))
    await artifacts.save_artifact(**of, filename="a", artifact=a_file(b"v1"))
    first = await artifacts.get_artifact_version(**of, filename="a", version=0)
    assert first is not None
    await artifacts.save_artifact(**of, filename="b", artifact=refers(first.canonical_uri))
    assert await artifacts.load_artifact(**of, filename="b") == a_file(b"v0")
    for foreign in ({**of, "session_id": "c-2"}, {**of, "user_id": new_owner()}):
        with pytest.raises(InputValidationError):
            await artifacts.save_artifact(**foreign, filename="b", artifact=refers(first.canonical_uri))


async def test_circular_artifact_references_are_refused(artifacts: BlobArtifacts, of: dict[str, Any]) -> None:
    await artifacts.save_artifact(**of, filename="a", artifact=a_file())
    itself = await artifacts.get_artifact_version(**of, filename="a")
    assert itself is not None
    await artifacts.delete_artifact(**of, filename="a")
    await artifacts.save_artifact(**of, filename="a", artifact=refers(itself.canonical_uri))
    with pytest.raises(InputValidationError):
        await artifacts.load_artifact(**of, filename="a")


def refers(uri: str) -> types.Part:
    return types.Part(file_data=types.FileData(file_uri=uri))


async def test_artifact_removed_by_adk_rewind_loads_as_none(artifacts: BlobArtifacts, of: dict[str, Any]) -> None:
    await artifacts.save_artifact(**of, filename="a", artifact=a_file())
    gone = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))
    await artifacts.save_artifact(**of, filename="a", artifact=gone)
    assert await artifacts.load_artifact(**of, filename="a") is None
    assert await artifacts.load_artifact(**of, filename="a", version=0) == a_file()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"filename": ""}, a_file()),
        ({"session_id": None}, a_file()),
        ({}, types.Part()),
        ({}, types.Part(inline_data=types.Blob(mime_type="a/b"))),
        ({}, types.Part(file_data=types.FileData(file_uri="artifact://nowhere"))),
        ({"custom_metadata": {"x": object()}}, a_file()),
    ],
    ids=["no name", "no session", "nothing", "no data", "no reference", "no JSON"],
)
async def test_invalid_artifact_part_is_refused(
    artifacts: BlobArtifacts, of: dict[str, Any], change: dict[str, Any], part: types.Part
) -> None:
    with pytest.raises(InputValidationError):
        await artifacts.save_artifact(**{**of, "filename": "a", **change}, artifact=part)
    assert await artifacts.list_artifact_keys(**of) == []


async def test_conflicting_artifact_save_is_retried(stack: Stack, clock: ManualClock, of: dict[str, Any]) -> None:
    client, conflicts = stack.client("s3"), [1, 1]

    def conflict(**_: Any) -> Any:
        if conflicts:
            conflicts.pop()
            error = {"Code": "ConditionalRequestConflict", "Message": "made up by a test"}
            return SimpleNamespace(status_code=409), {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 409}}
        return None

    client.meta.events.register("before-call.s3.PutObject", conflict)
    assert await on_s3(stack, clock, client).save_artifact(**of, filename="a.png", artifact=a_file()) == 0
    assert conflicts == []


async def test_artifact_save_with_lost_response_creates_one_version(
    stack: Stack, clock: ManualClock, of: dict[str, Any]
) -> None:
    client = stack.client("s3")
    lost = iter([True])

    def lose(response_dict: dict[str, Any], **_: Any) -> None:
        """Execute the first request, but replace its response by an HTTP 503."""
        if next(lost, False):
            response_dict |= {"status_code": 503, "body": b""}

    client.meta.events.register("before-parse.s3.PutObject", lose)
    artifacts = on_s3(stack, clock, client)
    assert await artifacts.save_artifact(**of, filename="a", artifact=a_file()) == 0
    assert next(lost, None) is None, "no answer was lost"
    assert await artifacts.list_versions(**of, filename="a") == [0]


@pytest.mark.parametrize("of_what", ["name", "metadata"])
async def test_artifact_names_too_long_for_s3_are_refused(
    stack: Stack, clock: ManualClock, of: dict[str, Any], of_what: str
) -> None:
    long = {"filename": "é" * 400} if of_what == "name" else {"filename": "a", "custom_metadata": {"x": "y" * 2000}}
    with pytest.raises(InputValidationError, match=of_what):
        await on_s3(stack, clock).save_artifact(**of, **long, artifact=a_file())
