"""API keys: verification, limits and storage."""

from typing import Any

import pytest

from aion_core.auth.schemes.api_key import ApiKeyScheme, make_key
from aion_core.errors import StoreUnavailable
from tests.support.auth_app import AuthApp
from tests.support.clock import ManualClock


@pytest.fixture
def app(clock: ManualClock) -> AuthApp:
    return AuthApp(clock, key=ApiKeyScheme())


async def key(app: AuthApp, clock: ManualClock, principal: str = "alice", **more: Any) -> str:
    made = make_key(principal, now=clock.now(), **more)
    await app.keys.add(made.record)
    return made.text


async def test_two_api_keys_of_one_user_give_same_owner_id(app: AuthApp, clock: ManualClock) -> None:
    """Replace a principal's key: the new key gives access to the tasks of the old one."""
    first, second = await key(app, clock), await key(app, clock)
    assert first != second
    answers = [(await app.get(("X-API-Key", text))).json() for text in (first, second)]
    assert answers[0] == answers[1]
    assert answers[0]["subject"] == "alice"
    assert (await app.get(("x-api-key", await key(app, clock, "bob")))).json()["owner"] != answers[0]["owner"]
    await app.keys.revoke(first.split("_")[1])
    assert (await app.get(("X-API-Key", first))).status_code == 401
    assert (await app.get(("X-API-Key", second))).json() == answers[0]


async def test_only_complete_api_key_is_accepted(
    app: AuthApp, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "aion_core")
    text = await key(app, clock)
    record = (await app.keys.all())[0]
    wrong = [
        text[:-1],
        text[:-1] + ("a" if text[-1] != "a" else "b"),
        text.upper(),
        f"{text} ",
        f"{text},{text}",
        record.id,
        record.sha256,
        f"aion_{record.id}_{record.sha256[:43]}",
        f"aion_{'a' * 16}_{'b' * 43}",
        "aion__",
        "ключ",
        "x" * 20_000,
    ]
    missing = await app.get()
    assert missing.headers["www-authenticate"] == 'ApiKey realm="aion", header="X-API-Key"'
    for guess in wrong:
        if guess.strip() != text:
            answer = await app.get(("X-API-Key", guess.encode().decode("latin-1")))
            assert (answer.status_code, answer.content) == (401, missing.content), guess
    assert (await app.get(("X-API-Key", text), ("X-API-Key", text))).status_code == 401
    assert (await app.get(("Authorization", f"Bearer {text}"))).status_code == 401
    for query in ("x-api-key", "X-API-Key", "api_key", "key"):
        assert (await app.get(path=f"/?{query}={text}")).status_code == 401
    assert text not in caplog.text
    assert text.split("_", 2)[2] not in caplog.text


async def test_stored_api_key_record_has_no_secret(clock: ManualClock) -> None:
    made = make_key("alice", now=clock.now())
    assert made.text.split("_", 2)[2] not in repr(made.record)
    assert made.record.last4 == made.text[-4:]


async def test_api_key_for_another_agent_is_forbidden(app: AuthApp, clock: ManualClock) -> None:
    header = ("X-API-Key", await key(app, clock, agents=frozenset({"two"})))
    assert (await app.get(header, path="/agents/two/")).status_code == 200
    for path in ("/", "/agents/one/", "/agents/nobody/", "/tasks"):
        assert (await app.get(header, path=path)).status_code == 403
    closed = ("X-API-Key", await key(app, clock, agents=frozenset()))
    assert (await app.get(closed, path="/agents/two/")).status_code == 403


async def test_api_key_grants_its_scopes(clock: ManualClock) -> None:
    app = AuthApp(clock, {"key": frozenset({"read", "write"})}, key=ApiKeyScheme(header="X-Our-Key"))
    for scopes, status in (({"read", "write", "x"}, 200), ({"read"}, 403), (set(), 403)):
        text = await key(app, clock, scopes=frozenset(scopes))
        assert (await app.get(("X-Our-Key", text))).status_code == status
        assert (await app.get(("X-API-Key", text))).status_code == 401


async def test_callers_are_refused_if_key_store_is_unavailable(
    app: AuthApp, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = await key(app, clock)

    async def throttled(key_id: str) -> None:
        raise StoreUnavailable("ProvisionedThroughputExceededException of table aion-secret")

    monkeypatch.setattr(app.keys, "find", throttled)
    answer = await app.get(("X-API-Key", text))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert "aion-secret" not in answer.text

    async def broken(key_id: str) -> None:
        raise LookupError("aion-secret")

    monkeypatch.setattr(app.keys, "find", broken)
    answer = await app.get(("X-API-Key", text))
    assert answer.status_code == 500
    assert "aion-secret" not in answer.text
