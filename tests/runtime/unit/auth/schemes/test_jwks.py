"""Signing keys of an issuer: the rate of their fetches, and failures of the issuer."""

import asyncio
import gc
import weakref
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from aion_core.auth.schemes.bearer import OidcScheme
from aion_core.auth.schemes.jwks import (
    BETWEEN_COLD_READS,
    BETWEEN_READS,
    FETCH_SECONDS,
    FRESH,
    STALE_IF_ERROR,
    STALE_WHILE_REVALIDATE,
    DocumentUnreadable,
    IssuerKeys,
    KeysUnavailable,
    fetch,
)
from aion_core.telemetry import Metric, NoopTraces
from aion_core.web.middleware.observability import ObservabilityMiddleware
from tests.support.asgi import ask
from tests.support.auth_app import AuthApp, issuer_scheme
from tests.support.clock import LoopClock, ManualClock, settle
from tests.support.downgraded import without_tls
from tests.support.issuer import AUDIENCE, Issuer
from tests.support.metrics import MemoryMetrics
from tests.support.rows import each_row

MINUTE = 60.0


@pytest.fixture
def app(issuer: Issuer, clock: ManualClock) -> AuthApp:
    return AuthApp(clock, jwt=issuer_scheme(issuer))


async def test_unknown_signing_keys_cause_at_most_two_fetches(app: AuthApp, issuer: Issuer) -> None:
    tokens = [issuer.token(headers={"kid": f"unknown-{n}"}) for n in range(1000)]
    for n in range(0, 1000, 100):
        answers = await asyncio.gather(*(app.get_with_token(token) for token in tokens[n : n + 100]))
        assert {answer.status_code for answer in answers} == {401}
    assert issuer.fetches() <= 2
    assert (await app.get_with_token(issuer.token())).status_code == 200
    assert issuer.fetches() <= 2


async def test_concurrent_first_callers_cause_one_jwks_fetch(app: AuthApp, issuer: Issuer) -> None:
    answers = await asyncio.gather(*(app.get_with_token(issuer.token()) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    assert issuer.fetches() == 1


async def test_new_signing_key_is_found_within_thirty_seconds(app: AuthApp, issuer: Issuer, clock: ManualClock) -> None:
    assert (await app.get_with_token(issuer.token())).status_code == 200
    issuer.add("k-2")
    assert (await app.get_with_token(issuer.token("k-2"))).status_code == 401
    clock.move(31)
    assert (await app.get_with_token(issuer.token("k-2"))).status_code == 200
    assert issuer.fetches() == 2


async def test_withdrawn_signing_key_stays_valid_for_ten_minutes(
    app: AuthApp, issuer: Issuer, clock: ManualClock
) -> None:
    token = issuer.token()
    assert (await app.get_with_token(token)).status_code == 200
    issuer.published_keys.clear()
    clock.move(9 * MINUTE)
    assert (await app.get_with_token(token)).status_code == 200
    assert issuer.fetches() == 1
    clock.move(2 * MINUTE)
    assert (await app.get_with_token(token)).status_code == 200, "no request waits for the issuer"
    assert (await app.get_with_token(issuer.token(headers={"kid": "new"}))).status_code == 401, "waits for the read"
    assert (await app.get_with_token(token)).status_code == 401
    assert issuer.fetches() == 2


@pytest.mark.parametrize("down", ["500", "302", "no JSON", "no set", "large"])
async def test_cached_signing_keys_are_accepted_one_day_while_issuer_fails(
    app: AuthApp, issuer: Issuer, clock: ManualClock, down: str
) -> None:
    assert (await app.get_with_token(issuer.token())).status_code == 200
    documents = {
        "no JSON": b"<html>",
        "no set": {"keys": "k-1"},
        "large": {"keys": issuer.published_keys, "x": "x" * 600_000},
    }
    if down in documents:
        issuer.documents["/jwks.json"] = documents[down]
    else:
        issuer.status = int(down)
    for hours in (1, 10, 12):
        clock.move(hours * 60 * MINUTE)
        assert (await app.get_with_token(issuer.token())).status_code == 200
        assert (await app.get_with_token(issuer.token(headers={"kid": "new"}))).status_code == 401
    assert "/elsewhere.json" not in issuer.requested_paths, "a redirection is not followed"
    clock.move(2 * 60 * MINUTE)
    answer = await app.get_with_token(issuer.token())
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    issuer.status = 200
    issuer.documents.clear()
    clock.move(31)
    assert (await app.get_with_token(issuer.token())).status_code == 200


async def test_unavailable_signing_keys_return_service_unavailable(
    app: AuthApp, issuer: Issuer, clock: ManualClock
) -> None:
    """The issuer answers 500: its tokens get 503, and requests without its tokens get 401."""
    issuer.status = 500
    for _ in range(20):
        answer = await app.get_with_token(issuer.token())
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert issuer.fetches() == 1, "repeated calls cause no immediate fetch"
    assert (await app.get()).status_code == 401
    assert (await app.get_with_token(issuer.token(iss="https://evil.example.com"))).status_code == 401
    issuer.status = 200
    clock.move(3)
    assert (await app.get_with_token(issuer.token())).status_code == 200


async def test_only_unavailable_signing_keys_count_as_internal_error_in_metrics(
    app: AuthApp, issuer: Issuer, clock: ManualClock
) -> None:
    issuer.status = 500
    metrics = MemoryMetrics()
    observed = ObservabilityMiddleware(app.app, metrics, NoopTraces())
    for token, status in ((issuer.token(), 503), ("x", 401)):
        answer = await ask(observed, "GET", "/", {"Authorization": f"Bearer {token}"})
        assert answer.status_code == status
    assert metrics.total(Metric.INTERNAL_ERRORS) == 1


async def test_oidc_discovery_document_locates_signing_keys(issuer: Issuer, clock: ManualClock) -> None:
    oidc = OidcScheme(issuer=issuer.url, audience=(AUDIENCE,))
    assert (await AuthApp(clock, oidc=oidc).get_with_token(issuer.token())).status_code == 200
    assert issuer.requested_paths == ["/.well-known/openid-configuration", "/jwks.json"]
    for document in (
        {"issuer": "https://evil.example.com", "jwks_uri": f"{issuer.url}/jwks.json"},
        {"issuer": issuer.url},
    ):
        issuer.documents["/.well-known/openid-configuration"] = document
        assert (await AuthApp(clock, oidc=oidc).get_with_token(issuer.token())).status_code == 503


@each_row("what", without_tls("https://login.example/keys"))
async def test_discovery_document_cannot_downgrade_address_of_keys(what: str, clock: ManualClock) -> None:
    issuer, discovery = "https://login.example", "https://login.example/.well-known/openid-configuration"
    requested: list[str] = []

    async def fetch(url: str) -> Any:
        requested.append(url)
        return {"issuer": issuer, "jwks_uri": without_tls(f"{issuer}/keys")[what]}

    with pytest.raises(KeysUnavailable):
        await IssuerKeys(issuer, fetch, clock, keys_url="", discovery_url=discovery).key("k")
    assert requested == [discovery]


async def test_unusable_signing_keys_are_skipped(issuer: Issuer, clock: ManualClock) -> None:
    shared = {"kty": "oct", "k": "c2VjcmV0", "kid": "k-1"}
    issuer.published_keys[:0] = [shared, {"kty": "??", "kid": "k-2"}, "x", {"kid": 1}]  # type: ignore[list-item]
    app = AuthApp(clock, jwt=issuer_scheme(issuer))
    assert (await app.get_with_token(issuer.token())).status_code == 200
    issuer.published_keys[-1]["use"] = "enc"
    assert (await AuthApp(clock, jwt=issuer_scheme(issuer)).get_with_token(issuer.token())).status_code == 401


# ── A slow issuer ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_jwks_fetch_time_limit_covers_whole_response(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock jumps at each byte: each read of the socket is within its limit, the whole fetch is not."""
    loop_clock = LoopClock(monkeypatch)
    issuer.drips = True
    fetching = asyncio.create_task(fetch(f"{issuer.url}/jwks.json", 1000))
    for _ in range(4):
        assert not fetching.done()
        await asyncio.to_thread(issuer.dripping.acquire)
        loop_clock.move(300)
    with pytest.raises(DocumentUnreadable, match="longer than 1000 s"):
        await asyncio.wait_for(fetching, 60)
    assert FETCH_SECONDS == 3


async def test_slow_issuer_does_not_delay_tokens_with_cached_keys(
    app: AuthApp, issuer: Issuer, clock: ManualClock
) -> None:
    assert (await app.get_with_token(issuer.token())).status_code == 200
    issuer.drips = True
    clock.move(FRESH.total_seconds() + 1)
    async with asyncio.timeout(60):
        assert (await app.get_with_token(issuer.token())).status_code == 200
        await asyncio.to_thread(issuer.dripping.acquire)
        answers = await asyncio.gather(*(app.get_with_token(issuer.token()) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {200}
    assert issuer.fetches() == 2


class SlowIssuer:
    """Fetch function of an issuer. A fetch lasts until the test answers it."""

    def __init__(self, issuer: Issuer) -> None:
        self.document = {"keys": issuer.published_keys}
        self.fetches: list[asyncio.Future[Any]] = []

    async def fetch(self, _: str) -> Any:
        self.fetches.append(asyncio.get_running_loop().create_future())
        return await self.fetches[-1]

    async def answer(self, document: Any = None) -> None:
        """Answer the last fetch with the issuer's keys or with `document`; an exception makes the fetch fail."""
        answered = document or self.document
        if isinstance(answered, Exception):
            self.fetches[-1].set_exception(answered)
        else:
            self.fetches[-1].set_result(answered)
        await settle()


@pytest.fixture
def slow(issuer: Issuer) -> SlowIssuer:
    return SlowIssuer(issuer)


@pytest.fixture
def keys(slow: SlowIssuer, issuer: Issuer, clock: ManualClock) -> IssuerKeys:
    return issuer_scheme(issuer).issuer_keys(slow.fetch, clock)


async def waiting(keys: IssuerKeys, *key_ids: str) -> list[asyncio.Task[Any]]:
    """Start a request for each key id; return the asyncio tasks of these requests."""
    found = [asyncio.create_task(keys.key(key_id)) for key_id in key_ids]
    await settle()
    return found


async def test_concurrent_first_callers_share_one_failed_fetch_of_signing_keys(
    keys: IssuerKeys, slow: SlowIssuer, clock: ManualClock
) -> None:
    callers = await waiting(keys, *["k-1"] * 6)
    clock.move(60)
    callers += await waiting(keys, "k-2")
    await slow.answer(DocumentUnreadable("no answer"))
    assert [type(caller.exception()) for caller in callers] == [KeysUnavailable] * 7
    [late] = await waiting(keys, "k-1")
    assert isinstance(late.exception(), KeysUnavailable)
    assert len(slow.fetches) == 1, "the pause begins at the end of the fetch"
    clock.move(BETWEEN_COLD_READS.total_seconds())
    [next_caller] = await waiting(keys, "k-1")
    await slow.answer()
    assert next_caller.result() is not None


async def test_canceled_caller_does_not_cancel_shared_fetch(keys: IssuerKeys, slow: SlowIssuer) -> None:
    first, second = await waiting(keys, "k-1", "k-1")
    first.cancel()
    await settle()
    await slow.answer()
    assert second.result() is not None
    assert len(slow.fetches) == 1


async def test_fetch_for_unknown_key_ids_does_not_delay_cached_key(
    keys: IssuerKeys, slow: SlowIssuer, clock: ManualClock
) -> None:
    [first] = await waiting(keys, "k-1")
    await slow.answer()
    clock.move(BETWEEN_READS.total_seconds())
    invented = await waiting(keys, *(f"x-{n}" for n in range(50)))
    [known] = await waiting(keys, "k-1")
    assert known.result() is first.result()
    assert not any(caller.done() for caller in invented)
    await slow.answer(DocumentUnreadable("no answer"))
    assert [caller.result() for caller in [*invented, *await waiting(keys, "x-51")]] == [None] * 51
    assert len(slow.fetches) == 2


async def test_signing_keys_older_than_an_hour_are_refreshed_first(
    keys: IssuerKeys, slow: SlowIssuer, clock: ManualClock
) -> None:
    """Refresh old keys before use, because Lambda may have frozen each refresh in the background."""
    await waiting(keys, "k-1")
    await slow.answer()
    clock.move(STALE_WHILE_REVALIDATE.total_seconds() + 1)
    [caller] = await waiting(keys, "k-1")
    assert not caller.done()
    await slow.answer(DocumentUnreadable("no answer"))
    assert caller.result() is not None
    [at_once] = await waiting(keys, "k-1")
    assert at_once.result() is not None
    clock.move(STALE_IF_ERROR.total_seconds())
    [last] = await waiting(keys, "k-1")
    await slow.answer(DocumentUnreadable("no answer"))
    assert isinstance(last.exception(), KeysUnavailable)


@pytest.mark.parametrize("failure", [DocumentUnreadable("no answer"), RuntimeError("unexpected")], ids=repr)
async def test_failed_refresh_of_cached_keys_logs_warning(
    keys: IssuerKeys, slow: SlowIssuer, clock: ManualClock, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    """Log no error: it would feed the rollback alarm, but Lambda may just have frozen the fetch."""
    [unknown] = await waiting(keys, "k-1")
    await slow.answer(failure)
    assert isinstance(unknown.exception(), KeysUnavailable)
    clock.move(BETWEEN_COLD_READS.total_seconds())
    await waiting(keys, "k-1")
    await slow.answer()
    clock.move(STALE_WHILE_REVALIDATE.total_seconds())
    await waiting(keys, "k-1")
    await slow.answer(failure)
    clock.move(BETWEEN_READS.total_seconds())
    await waiting(keys, "k-1")
    await slow.answer(failure)
    levels = [record.levelname for record in caplog.records if "cannot be read" in record.getMessage()]
    assert levels == ["ERROR", "WARNING", "ERROR"]


async def test_finished_signing_key_fetch_retains_no_credentials(keys: IssuerKeys, slow: SlowIssuer) -> None:
    """The fetch's asyncio task references the context variables of the request that started it."""

    class Credentials:
        """Value of a context variable."""

    gc.freeze()  # a collection of all objects of the other tests takes a second
    credentials = Credentials()
    variable: ContextVar[Credentials] = ContextVar("credentials")
    context = copy_context()
    context.run(variable.set, credentials)
    caller = asyncio.create_task(keys.key("k-1"), context=context)
    await settle()
    await slow.answer()
    assert (await caller) is not None
    retained = weakref.ref(credentials)
    del credentials, context, caller
    slow.fetches.clear()
    gc.collect()
    assert retained() is None


async def test_compressed_key_document_is_refused(issuer: Issuer) -> None:
    issuer.headers["Content-Encoding"] = "gzip"
    with pytest.raises(DocumentUnreadable, match="compressed"):
        await fetch(f"{issuer.url}/jwks.json")
