"""HTTP Basic: whose a name and a password are, what a flood of wrong ones costs, and users that change."""

import asyncio
import base64
import logging
import threading

import pytest
from argon2 import PasswordHasher

from aion_core.auth.basic import AT_ONCE, WRONG_A_MINUTE, BasicVerifier, hash_password
from aion_core.auth.declaration import Basic
from aion_core.auth.presented import Presented
from aion_core.auth.principal import BASIC_ISSUER, Principal
from aion_core.auth.users import Users, users_in
from aion_core.errors import ConfigurationError
from tests.support.clock import ManualClock
from tests.unit.auth.door import Door
from tests.unit.auth.passwords import CHEAP, USERS, basic_header


@pytest.fixture
def door(clock: ManualClock) -> Door:
    return Door(clock, users=USERS, basic=Basic())


class Hashed(list[str]):
    """The passwords that were hashed, and how many of them at once."""

    most_at_once = 0


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Hashed:
    found, running = Hashed(), 0
    original = PasswordHasher.verify

    def counted(self: PasswordHasher, kept: str, password: str) -> bool:
        nonlocal running
        running += 1
        found.append(password)
        found.most_at_once = max(found.most_at_once, running)
        try:
            return original(self, kept, password)
        finally:
            running -= 1

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    return found


async def status(door: Door, name: str, password: str) -> int:
    return (await door.ask(basic_header(name, password))).status_code


async def test_a_name_and_its_password_are_a_users(door: Door) -> None:
    """R96, R97."""
    assert (await door.ask(basic_header("alice", "wonder:land"))).json()["subject"] == "alice"
    assert (await door.ask(basic_header("bob", "Ünïcode"))).json()["subject"] == "bob"
    missing = await door.ask()
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
        answer = await door.ask(wrong)
        assert (answer.status_code, answer.content) == (401, missing.content), wrong


async def test_a_credential_is_hashed_once_whether_it_is_right_or_wrong(door: Door, hashed: Hashed) -> None:
    """R96: R6. An unknown name takes the hashing too, so that it takes as long as a known one."""
    for name, password, told in (("alice", "wonder:land", 200), ("alice", "guess", 401), ("nobody", "guess", 401)):
        hashed.clear()
        for _ in range(3):
            assert await status(door, name, password) == told
        assert hashed == [password]


async def test_a_flood_of_wrong_passwords_costs_a_few_hashes_a_minute_and_keeps_out_nobody_who_is_known(
    door: Door, hashed: Hashed, clock: ManualClock
) -> None:
    """R97: 88: whoever the process has not seen before is told to come back, which is no word on their password."""
    assert await status(door, "alice", "wonder:land") == 200
    hashed.clear()
    floods = await asyncio.gather(*(door.ask(basic_header(f"n-{n % 7}", f"guess-{n}")) for n in range(300)))
    statuses = [answer.status_code for answer in floods]
    assert (statuses.count(401), statuses.count(429)) == (WRONG_A_MINUTE, 300 - WRONG_A_MINUTE)
    assert len(hashed) == WRONG_A_MINUTE
    assert 1 <= hashed.most_at_once <= AT_ONCE
    refused = [answer for answer in floods if answer.status_code == 429]
    assert {answer.headers["retry-after"] for answer in refused} == {"2"}
    assert len({answer.content for answer in refused}) == 1, "one answer to all, whoever they say they are"
    assert "www-authenticate" not in refused[0].headers, "it is no word on the credentials"
    error = refused[0].json()["error"]
    assert (error["status"], error["details"][0]["reason"]) == ("RESOURCE_EXHAUSTED", "TOO_MANY_REQUESTS")
    assert error["details"][0]["metadata"] == {"retryAfterSeconds": "2"}
    assert await status(door, "alice", "wonder:land") == 200
    assert await status(door, "bob", "Ünïcode") == 429
    clock.move(60 / WRONG_A_MINUTE + 0.01)
    assert await status(door, "bob", "Ünïcode") == 200
    clock.move(60)
    hashed.clear()
    for n in range(2 * WRONG_A_MINUTE):
        await status(door, "bob", f"again-{n}")
    assert len(hashed) == WRONG_A_MINUTE, "the bucket has a rim"


async def test_a_credential_that_comes_many_times_at_once_is_hashed_once_too(door: Door, hashed: Hashed) -> None:
    """R96: R6: a client's first requests, all at one moment, cost one hash and not a bucket of tries."""
    for password, told in (("wonder:land", 200), ("guess", 401)):
        hashed.clear()
        at_once = [status(door, "alice", password) for _ in range(2 * WRONG_A_MINUTE)]
        assert await asyncio.gather(*at_once) == [told] * len(at_once)
        assert hashed == [password]


async def test_a_request_that_is_given_up_takes_nobody_elses_answer_along(
    clock: ManualClock, hashed: Hashed, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    counted = PasswordHasher.verify

    def slow(self: PasswordHasher, kept: str, password: str) -> bool:
        begun.set()
        may_end.wait(10)
        return counted(self, kept, password)

    monkeypatch.setattr(PasswordHasher, "verify", slow)
    name, value = basic_header("alice", "wonder:land")
    presented = Presented.of([(name.encode(), value.encode())], None)
    # A server cancels what serves a request when it gives it up; the door goes on with it.
    verifier = BasicVerifier(Users(lambda: dict(USERS), clock), clock)
    first, second = (asyncio.ensure_future(verifier.verify(presented)) for _ in range(2))
    while not begun.is_set():
        await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    may_end.set()
    assert await second == Principal(BASIC_ISSUER, "alice")
    assert hashed == ["wonder:land"]


async def test_many_who_are_right_wait_for_each_other_and_are_all_let_in(clock: ManualClock, hashed: Hashed) -> None:
    """What is right costs no try."""
    users = {f"u-{n}": CHEAP.hash("right") for n in range(2 * WRONG_A_MINUTE)}
    door = Door(clock, users=users, basic=Basic())
    assert {await status(door, name, "right") for name in users} == {200}
    assert len(hashed) == len(users)


async def test_users_who_are_added_changed_and_taken_away_are_so_in_five_minutes(clock: ManualClock) -> None:
    """R96: R14: without a deployment."""
    users = {"alice": CHEAP.hash("old"), "bob": CHEAP.hash("b")}
    door = Door(clock, users=lambda: dict(users), basic=Basic())
    assert [await status(door, name, word) for name, word in (("alice", "old"), ("bob", "b"))] == [200, 200]
    assert [await status(door, name, word) for name, word in (("alice", "new"), ("carol", "c"))] == [401, 401]
    users |= {"alice": CHEAP.hash("new"), "carol": CHEAP.hash("c")}
    del users["bob"]
    clock.move(299)
    assert await status(door, "alice", "old") == 200
    clock.move(2)
    tried = (("alice", "old"), ("alice", "new"), ("bob", "b"), ("carol", "c"))
    assert [await status(door, name, word) for name, word in tried] == [401, 200, 401, 200]


async def test_a_user_who_is_gone_is_not_known_by_a_hash_that_another_has(clock: ManualClock) -> None:
    """A name is part of who somebody is, also where an operator gave two the same line."""
    same = CHEAP.hash("same")
    users = {"first": same, "second": same}
    door = Door(clock, users=lambda: dict(users), basic=Basic())
    assert await status(door, "second", "same") == 200
    del users["second"]
    clock.move(301)
    assert await status(door, "second", "same") == 401


async def test_while_the_users_cannot_be_read_again_they_stay_for_a_day(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """R96: a secret that somebody has spoilt lets nobody out, and nobody in for ever."""
    reads = 0
    is_broken = False

    def read() -> dict[str, str]:
        nonlocal reads
        reads += 1
        if is_broken:
            raise ConfigurationError("the secret is no JSON")
        return dict(USERS)

    door = Door(clock, users=read, basic=Basic())
    is_broken = True
    clock.move(301)
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            assert await status(door, "alice", "wonder:land") == 200
    assert reads == 2, "who calls again does not make us read again at once"
    assert "the secret is no JSON" in caplog.text
    clock.move(31)
    assert await status(door, "alice", "wonder:land") == 200
    assert reads == 3
    clock.move(24 * 3600)
    assert await status(door, "alice", "wonder:land") == 503
    is_broken = False
    clock.move(31)
    assert await status(door, "alice", "wonder:land") == 200


def test_what_the_users_file_holds_has_to_be_hashes() -> None:
    assert users_in(f'{{"a": "{hash_password("x")}"}}', "it").keys() == {"a"}
    for text in ("{", "[]", '{"a": "password"}', '{"a": 1}', '{"a:b": "$argon2id$x"}', '{"": "$argon2id$x"}'):
        with pytest.raises(ConfigurationError, match="the file") as raised:
            users_in(text, "the file")
        assert "password" not in str(raised.value)
        assert raised.value.__cause__ is None
