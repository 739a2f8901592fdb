"""Refusals reveal nothing by their time or by their requests to the table.

The tests count the bytecode instructions of comparisons and the work for unknown callers.
"""

import hashlib
import hmac
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from argon2 import PasswordHasher, extract_parameters
from starlette.types import ASGIApp

from aion_core.auth.api_keys import ApiKeys
from aion_core.auth.credentials import RequestCredentials
from aion_core.auth.schemes import api_key
from aion_core.auth.schemes.api_key import ApiKeyScheme, ApiKeyVerifier, make_key
from aion_core.auth.schemes.basic import BasicScheme
from aion_core.aws.client import AwsClient
from aion_core.local.memory.table import MemoryTable
from tests.runtime.unit.auth.id_requests import NEVER_WAS, requests
from tests.runtime.unit.auth.passwords import USERS, basic_header
from tests.runtime.unit.auth.test_foreign_ids import AION_YAML, GRAPH, Callers
from tests.runtime.unit.auth.timing import Work, instructions
from tests.support.auth_app import AuthApp
from tests.support.clock import ManualClock
from tests.support.issuer import Issuer


def key_credentials(text: str) -> RequestCredentials:
    return RequestCredentials.from_request([(b"x-api-key", text.encode())], None)


def wrong_keys(text: str) -> tuple[str, str]:
    """Return a key with all secret characters wrong, and a key with only the last character wrong."""
    head, secret = text[:22], text[22:]
    other = {True: "A", False: "B"}
    return head + other[secret[0] != "A"] * len(secret), text[:-1] + other[secret[-1] != "A"]


async def verifying(clock: ManualClock) -> tuple[Work, Work]:
    """Return functions that refuse each of the two wrong keys."""
    keys = ApiKeys(MemoryTable(clock), clock)
    made = make_key("alice", now=clock.now())
    await keys.add(made.record)
    verifier = ApiKeyVerifier(ApiKeyScheme(), keys)
    first, last = (key_credentials(text) for text in wrong_keys(made.text))
    return (lambda: verifier.verify(first)), (lambda: verifier.verify(last))


def compare_by_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the comparison of API keys by one that stops at the first wrong character."""

    def leaks(one: str, other: str) -> bool:
        return len(one) == len(other) and all(a == b for a, b in zip(one, other, strict=True))

    monkeypatch.setattr(api_key, "_hash", lambda text: text)
    monkeypatch.setattr(hmac, "compare_digest", leaks)


async def counted(clock: ManualClock) -> list[int]:
    """Return the instructions of the two refusals, each executed once before."""
    both = await verifying(clock)
    for work in both:
        instructions(work)
    return [instructions(work) for work in both]


async def test_comparison_of_wrong_api_keys_executes_equal_instructions(clock: ManualClock) -> None:
    first, last = await counted(clock)
    assert first == last


async def test_instruction_count_detects_early_comparison_end(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_by_character(monkeypatch)
    first, last = await counted(clock)
    assert first < last


class WorkLog(list[tuple[str, Any]]):
    """Recorded operations, in order."""

    def note(self, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, what: Callable[..., Any]) -> None:
        original = getattr(where, name)

        def recorded(*given: Any, **more: Any) -> Any:
            self.append((name, what(*given, **more)))
            return original(*given, **more)

        monkeypatch.setattr(where, name, recorded)


async def test_every_refused_api_key_costs_the_same_work(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse keys for several reasons: each costs one read, one hash, one comparison, and gets the same response."""
    app = AuthApp(clock, key=ApiKeyScheme())
    live, gone, old = (make_key("alice", now=clock.now()) for _ in range(3))
    old = make_key("alice", now=clock.now(), expires=clock.now() + timedelta(seconds=1))
    for made in (live, gone, old):
        await app.keys.add(made.record)
    await app.keys.revoke(gone.record.id)
    clock.move(2)
    unknown = make_key("alice", now=clock.now())
    work_log = WorkLog()
    work_log.note(monkeypatch, app.keys, "find", lambda _: None)
    # Count the calls in the whole process: during the test no other code calls these functions.
    work_log.note(monkeypatch, hashlib, "sha256", lambda text: len(text))
    work_log.note(monkeypatch, hmac, "compare_digest", lambda one, other: (len(one), len(other)))
    answers = []
    for text in (*wrong_keys(live.text), gone.text, old.text, unknown.text):
        work_log.clear()
        answer = await app.get(("X-API-Key", text))
        assert list(work_log) == [("find", None), ("sha256", len(text)), ("compare_digest", (64, 64))], text
        answers.append((answer.status_code, answer.content, answer.headers.multi_items()))
    assert answers.count(answers[0]) == len(answers)
    assert answers[0][0] == 401


async def test_unknown_basic_user_costs_same_hash_as_wrong_password(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hash for an unknown user has the same argon2 parameters as that for a wrong password."""
    app = AuthApp(clock, users=USERS, basic=BasicScheme())
    work_log = WorkLog()
    work_log.note(monkeypatch, PasswordHasher, "verify", lambda _, hashed, __: extract_parameters(hashed))
    answers = []
    for name in ("alice", "nobody"):
        work_log.clear()
        answer = await app.get(basic_header(name, "guess"))
        assert list(work_log) == [("verify", extract_parameters(USERS["alice"]))]
        answers.append((answer.status_code, answer.content, answer.headers.multi_items()))
    assert answers[0] == answers[1]


@pytest.fixture
def app(api_function: Callable[[str, str, str], ASGIApp]) -> ASGIApp:
    return api_function("acting", GRAPH, AION_YAML)


@pytest.mark.deep
async def test_another_owners_task_id_costs_same_requests_as_unknown_id(
    app: ASGIApp, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Send each request with a foreign and with an unknown id: the table gets the same requests and returns no item."""
    callers = Callers(app, issuer)  # type: ignore[arg-type]
    bobs = await callers.a_task("bob", "hello")
    work_log = WorkLog()
    original = AwsClient.blocking

    def recorded(self: AwsClient, operation: str, **parameters: Any) -> Any:
        result = original(self, operation, **parameters)
        work_log.append((operation, sorted(name for name in result if name != "ResponseMetadata" and result[name])))
        return result

    monkeypatch.setattr(AwsClient, "blocking", recorded)
    counted = 0
    for request in (request for request in requests() if request.names("task")):
        operations = []
        for id_ in (bobs["id"], NEVER_WAS):
            method, target, body = request.to(task=id_, tenant="red")
            work_log.clear()
            await callers.send("alice", method, target, body)
            operations.append(list(work_log))
        assert operations[0] == operations[1], request.name
        counted += bool(operations[0])
        assert not any("Item" in name for _, names in operations[0] for name in names), (request.name, operations)
    assert counted > 20
    work_log.clear()
    await callers.rpc("bob", "GetTask", id=bobs["id"])
    assert any("Item" in name for _, names in work_log for name in names), "the owner's request reads the item"
