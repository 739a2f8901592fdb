"""How long a refusal takes, and what it asks of the table, tells nothing of what was right about the credentials (64).

Time is measured where texts are compared, by a method that is first shown to find a leak; where somebody may not exist at
all, what is done for them is counted.
"""

import hashlib
import hmac
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from argon2 import PasswordHasher, extract_parameters
from starlette.types import ASGIApp

from aion_core.auth import api_keys, basic
from aion_core.auth.api_keys import ApiKeyVerifier, make_key
from aion_core.auth.declaration import ApiKey, Basic
from aion_core.auth.presented import Presented
from aion_core.aws.client import AwsClient
from aion_core.memory.table import MemoryTable
from aion_core.stores.api_keys import TableApiKeys
from tests.support.clock import ManualClock
from tests.support.issuer import Issuer
from tests.support.timing import Work, told_apart
from tests.unit.auth.door import Door
from tests.unit.auth.foreign import NEVER_WAS, requests
from tests.unit.auth.passwords import USERS, basic_header
from tests.unit.auth.test_foreign_ids import AION_YAML, GRAPH, Callers

KNOWS_NOTHING, KNOWS = 0.25, 0.6
"""Three tries of chance stay far below the one; a comparison that ends early is far above the other."""


def presented(text: str) -> Presented:
    return Presented.of([(b"x-api-key", text.encode())], None)


def wrong_keys(text: str) -> tuple[str, str]:
    """A key that is wrong from its first secret character on, and one that is in its last one only."""
    head, secret = text[:22], text[22:]
    other = {True: "A", False: "B"}
    return head + other[secret[0] != "A"] * len(secret), text[:-1] + other[secret[-1] != "A"]


async def verifying(clock: ManualClock) -> tuple[Work, Work]:
    """The work of refusing each of the two."""
    keys = TableApiKeys(MemoryTable(clock), clock)
    made = make_key("alice", now=clock.now())
    await keys.add(made.record)
    verifier = ApiKeyVerifier(ApiKey(), keys)
    first, last = (presented(text) for text in wrong_keys(made.text))
    return (lambda: verifier.verify(first)), (lambda: verifier.verify(last))


async def test_the_time_of_a_wrong_key_does_not_tell_how_much_of_it_is_right(clock: ManualClock) -> None:
    """R97: 64. What is by chance is not so three times."""
    works = await verifying(clock)
    assert min(told_apart(*works) for _ in range(3)) < KNOWS_NOTHING


async def test_a_comparison_that_ends_early_is_found_by_the_same_method(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The method would see it: keys kept as they are, and compared a character at a time."""

    def leaks(one: str, other: str) -> bool:
        return len(one) == len(other) and all(a == b for a, b in zip(one, other, strict=True))

    monkeypatch.setattr(api_keys, "_hash", lambda text: text)
    monkeypatch.setattr(hmac, "compare_digest", leaks)
    works = await verifying(clock)
    assert max(told_apart(*works) for _ in range(3)) > KNOWS


class Done(list[tuple[str, Any]]):
    """What was done, in its order."""

    def note(self, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, what: Callable[..., Any]) -> None:
        original = getattr(where, name)

        def noted(*given: Any, **more: Any) -> Any:
            self.append((name, what(*given, **more)))
            return original(*given, **more)

        monkeypatch.setattr(where, name, noted)


async def test_as_much_is_done_for_a_key_that_is_unknown_revoked_expired_or_wrong(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R97: 64: one read, one hash, one comparison of the whole hash, and the same answer."""
    door = Door(clock, key=ApiKey())
    live, gone, old = (make_key("alice", now=clock.now()) for _ in range(3))
    old = make_key("alice", now=clock.now(), expires=clock.now() + timedelta(seconds=1))
    for made in (live, gone, old):
        await door.keys.add(made.record)
    await door.keys.revoke(gone.record.id)
    clock.move(2)
    unknown = make_key("alice", now=clock.now())
    done = Done()
    done.note(monkeypatch, door.keys, "find", lambda _: None)
    # Of everybody's, and nothing else uses them in between.
    done.note(monkeypatch, hashlib, "sha256", lambda text: len(text))
    done.note(monkeypatch, hmac, "compare_digest", lambda one, other: (len(one), len(other)))
    answers = []
    for text in (*wrong_keys(live.text), gone.text, old.text, unknown.text):
        done.clear()
        answer = await door.ask(("X-API-Key", text))
        assert list(done) == [("find", None), ("sha256", len(text)), ("compare_digest", (64, 64))], text
        answers.append((answer.status_code, answer.content, answer.headers.multi_items()))
    assert answers.count(answers[0]) == len(answers)
    assert answers[0][0] == 401


async def test_as_much_is_done_for_a_user_who_is_unknown_as_for_a_wrong_password(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R97: 64: one argon2 of the same cost."""
    door = Door(clock, users=USERS, basic=Basic())
    done = Done()
    done.note(monkeypatch, PasswordHasher, "verify", lambda _, hashed, __: extract_parameters(hashed))
    answers = []
    for name in ("alice", "nobody"):
        done.clear()
        answer = await door.ask(basic_header(name, "guess"))
        assert list(done) == [("verify", extract_parameters(USERS["alice"]))]
        answers.append((answer.status_code, answer.content, answer.headers.multi_items()))
    assert answers[0] == answers[1]
    assert vars(basic)["PasswordHasher"] is PasswordHasher


@pytest.fixture
def app(api_function: Callable[[str, str, str], ASGIApp]) -> ASGIApp:
    return api_function("acting", GRAPH, AION_YAML)


async def test_the_table_is_asked_the_same_for_a_task_of_anothers_as_for_one_that_never_was(
    app: ASGIApp, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R96, R97: 64, 70: by every request, as often, and it has nothing to say of either."""
    callers = Callers(app, issuer)  # type: ignore[arg-type]
    bobs = await callers.a_task("bob", "hello")
    done = Done()
    original = AwsClient.blocking

    def noted(self: AwsClient, operation: str, **parameters: Any) -> Any:
        told = original(self, operation, **parameters)
        done.append((operation, sorted(name for name in told if name != "ResponseMetadata" and told[name])))
        return told

    monkeypatch.setattr(AwsClient, "blocking", noted)
    counted = 0
    for request in (request for request in requests() if request.names("task")):
        asked = []
        for id_ in (bobs["id"], NEVER_WAS):
            method, target, body = request.to(task=id_, tenant="red")
            done.clear()
            await callers.send("alice", method, target, body)
            asked.append(list(done))
        assert asked[0] == asked[1], request.name
        counted += bool(asked[0])
        assert not any("Item" in name for _, names in asked[0] for name in names), (request.name, asked)
    assert counted > 20
    done.clear()
    await callers.rpc("bob", "GetTask", id=bobs["id"])
    assert any("Item" in name for _, names in done for name in names), "of one's own it has"
