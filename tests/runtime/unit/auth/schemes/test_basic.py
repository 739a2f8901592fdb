"""HTTP Basic: verification, the limit of wrong passwords, changes of the users."""

import asyncio
import base64
import logging
import threading

import pytest
from argon2 import PasswordHasher

from aion_core.auth.credentials import RequestCredentials
from aion_core.auth.principal import BASIC_ISSUER, Principal
from aion_core.auth.schemes.basic import CONCURRENT_HASHES, WRONG_PER_MINUTE, BasicScheme, BasicVerifier
from aion_core.auth.schemes.basic_users import BasicUsers, hash_password, parse_users
from aion_core.errors import ConfigurationError
from tests.runtime.unit.auth.passwords import CHEAP, USERS, basic_header
from tests.support.auth_app import AuthApp
from tests.support.clock import ManualClock


@pytest.fixture
def app(clock: ManualClock) -> AuthApp:
    return AuthApp(clock, users=USERS, basic=BasicScheme())


class Hashed(list[str]):
    """Record of the hashed passwords in order, and of how many hashes ran at the same time."""

    most_at_once = 0


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Hashed:
    found, running = Hashed(), 0
    original = PasswordHasher.verify

    def counted(self: PasswordHasher, stored: str, password: str) -> bool:
        nonlocal running
        running += 1
        found.append(password)
        found.most_at_once = max(found.most_at_once, running)
        try:
            return original(self, stored, password)
        finally:
            running -= 1

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    return found


async def status(app: AuthApp, name: str, password: str) -> int:
    return (await app.get(basic_header(name, password))).status_code


async def test_basic_authentication_accepts_only_correct_passwords(app: AuthApp) -> None:
    assert (await app.get(basic_header("alice", "wonder:land"))).json()["subject"] == "alice"
    assert (await app.get(basic_header("bob", "Ünïcode"))).json()["subject"] == "bob"
    missing = await app.get()
    assert missing.headers["www-authenticate"] == 'Basic realm="aion", charset="UTF-8"'
    for wrong in (
        basic_header("alice", "wonder"),
        basic_header("alice", ""),
        basic_header("Alice", "wonder:land"),
        basic_header("carol", "wonder:land"),
        basic_header("broken", "x"),
        basic_header("", ""),
        ("Authorization", "Basic " + base64.b64encode(b"alice").decode()),
        ("Authorization", "Basic " + base64.b64encode(b"\xff\xfe:x").decode()),
        ("Authorization", "Basic !!!"),
        ("Authorization", "Basic"),
    ):
        answer = await app.get(wrong)
        assert (answer.status_code, answer.content) == (401, missing.content), wrong


async def test_basic_authentication_hashes_each_password_once(app: AuthApp, hashed: Hashed) -> None:
    """The password of an unknown user is hashed too, so that its refusal takes as long as that of a known user."""
    for name, password, expected in (("alice", "wonder:land", 200), ("alice", "guess", 401), ("nobody", "guess", 401)):
        hashed.clear()
        for _ in range(3):
            assert await status(app, name, password) == expected
        assert hashed == [password]


async def test_basic_authentication_limits_wrong_passwords_per_minute(
    app: AuthApp, hashed: Hashed, clock: ManualClock
) -> None:
    """Above the limit, unverified credentials get 429 without a hash; credentials verified before still work."""
    assert await status(app, "alice", "wonder:land") == 200
    hashed.clear()
    floods = await asyncio.gather(*(app.get(basic_header(f"n-{n % 7}", f"guess-{n}")) for n in range(300)))
    statuses = [answer.status_code for answer in floods]
    assert (statuses.count(401), statuses.count(429)) == (WRONG_PER_MINUTE, 300 - WRONG_PER_MINUTE)
    assert len(hashed) == WRONG_PER_MINUTE
    assert 1 <= hashed.most_at_once <= CONCURRENT_HASHES
    refused = [answer for answer in floods if answer.status_code == 429]
    assert {answer.headers["retry-after"] for answer in refused} == {"2"}
    assert len({answer.content for answer in refused}) == 1, "the response is the same for all names"
    assert "www-authenticate" not in refused[0].headers, "the response does not judge the credentials"
    error = refused[0].json()["error"]
    assert (error["status"], error["details"][0]["reason"]) == ("RESOURCE_EXHAUSTED", "TOO_MANY_REQUESTS")
    assert error["details"][0]["metadata"] == {"retryAfterSeconds": "2"}
    assert await status(app, "alice", "wonder:land") == 200
    assert await status(app, "bob", "Ünïcode") == 429
    clock.move(60 / WRONG_PER_MINUTE + 0.01)
    assert await status(app, "bob", "Ünïcode") == 200
    clock.move(60)
    hashed.clear()
    for n in range(2 * WRONG_PER_MINUTE):
        await status(app, "bob", f"again-{n}")
    assert len(hashed) == WRONG_PER_MINUTE, "the budget has a maximum"


async def test_basic_authentication_hashes_concurrent_password_once(app: AuthApp, hashed: Hashed) -> None:
    """Send one password in several first requests at once: they cost one hash and one attempt."""
    for password, expected in (("wonder:land", 200), ("guess", 401)):
        hashed.clear()
        at_once = [status(app, "alice", password) for _ in range(2 * WRONG_PER_MINUTE)]
        assert await asyncio.gather(*at_once) == [expected] * len(at_once)
        assert hashed == [password]


async def test_cancelled_request_does_not_cancel_shared_password_comparison(
    clock: ManualClock, hashed: Hashed, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    counted = PasswordHasher.verify

    def slow(self: PasswordHasher, stored: str, password: str) -> bool:
        begun.set()
        may_end.wait(60)
        return counted(self, stored, password)

    monkeypatch.setattr(PasswordHasher, "verify", slow)
    name, value = basic_header("alice", "wonder:land")
    credentials = RequestCredentials.from_request([(name.encode(), value.encode())], None)
    # Cancel the first of two requests, as a server does with an abandoned request. The password comparison continues.
    verifier = BasicVerifier(BasicUsers(lambda: dict(USERS), clock), clock)
    first, second = (asyncio.ensure_future(verifier.verify(credentials)) for _ in range(2))
    while not begun.is_set():
        await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    may_end.set()
    assert await second == Principal(BASIC_ISSUER, "alice")
    assert hashed == ["wonder:land"]


async def test_correct_passwords_do_not_count_as_attempts(clock: ManualClock, hashed: Hashed) -> None:
    users = {f"u-{n}": CHEAP.hash("right") for n in range(2 * WRONG_PER_MINUTE)}
    app = AuthApp(clock, users=users, basic=BasicScheme())
    assert {await status(app, name, "right") for name in users} == {200}
    assert len(hashed) == len(users)


async def test_changed_basic_users_take_effect_within_five_minutes(clock: ManualClock) -> None:
    """Change the users' secret: no new deployment is needed."""
    users = {"alice": CHEAP.hash("old"), "bob": CHEAP.hash("b")}
    app = AuthApp(clock, users=lambda: dict(users), basic=BasicScheme())
    assert [await status(app, name, word) for name, word in (("alice", "old"), ("bob", "b"))] == [200, 200]
    assert [await status(app, name, word) for name, word in (("alice", "new"), ("carol", "c"))] == [401, 401]
    users |= {"alice": CHEAP.hash("new"), "carol": CHEAP.hash("c")}
    del users["bob"]
    clock.move(299)
    assert await status(app, "alice", "old") == 200
    clock.move(2)
    tried = (("alice", "old"), ("alice", "new"), ("bob", "b"), ("carol", "c"))
    assert [await status(app, name, word) for name, word in tried] == [401, 200, 401, 200]


async def test_removed_user_with_shared_hash_is_refused(clock: ManualClock) -> None:
    """Two users have the same hash; after the removal of one, its name is refused."""
    same = CHEAP.hash("same")
    users = {"first": same, "second": same}
    app = AuthApp(clock, users=lambda: dict(users), basic=BasicScheme())
    assert await status(app, "second", "same") == 200
    del users["second"]
    clock.move(301)
    assert await status(app, "second", "same") == 401


async def test_known_basic_users_work_one_day_while_secret_is_unreadable(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Break the secret: the users read before are accepted for one more day, then refused."""
    reads = 0
    is_broken = False

    def read() -> dict[str, str]:
        nonlocal reads
        reads += 1
        if is_broken:
            raise ConfigurationError("the secret is no JSON")
        return dict(USERS)

    app = AuthApp(clock, users=read, basic=BasicScheme())
    is_broken = True
    clock.move(301)
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            assert await status(app, "alice", "wonder:land") == 200
    assert reads == 2, "repeated calls cause no immediate read"
    assert "the secret is no JSON" in caplog.text
    clock.move(31)
    assert await status(app, "alice", "wonder:land") == 200
    assert reads == 3
    clock.move(24 * 3600)
    assert await status(app, "alice", "wonder:land") == 503
    is_broken = False
    clock.move(31)
    assert await status(app, "alice", "wonder:land") == 200


def test_users_of_basic_authentication_need_argon2_hashes() -> None:
    assert parse_users(f'{{"a": "{hash_password("x")}"}}', "it").keys() == {"a"}
    for text in ("{", "[]", '{"a": "password"}', '{"a": 1}', '{"a:b": "$argon2id$x"}', '{"": "$argon2id$x"}'):
        with pytest.raises(ConfigurationError, match="the file") as raised:
            parse_users(text, "the file")
        assert "password" not in str(raised.value)
        assert raised.value.__cause__ is None
