"""Keys of an issuer: the rate of requests for them, and failures of the issuer."""

import asyncio

import pytest

from aion_core.auth.schemes.bearer import OidcScheme
from tests.support.clock import ManualClock
from tests.support.issuer import AUDIENCE, Issuer
from tests.unit.auth.auth_app import AuthApp, issuer_scheme

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
    assert (await app.get_with_token(token)).status_code == 401


@pytest.mark.parametrize("down", ["500", "302", "no JSON", "no set", "large"])
async def test_known_signing_keys_outlive_issuer_failure_one_day(
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
    """Requests without a token of the issuer get 401."""
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


async def test_unusable_signing_keys_are_skipped(issuer: Issuer, clock: ManualClock) -> None:
    shared = {"kty": "oct", "k": "c2VjcmV0", "kid": "k-1"}
    issuer.published_keys[:0] = [shared, {"kty": "??", "kid": "k-2"}, "x", {"kid": 1}]  # type: ignore[list-item]
    app = AuthApp(clock, jwt=issuer_scheme(issuer))
    assert (await app.get_with_token(issuer.token())).status_code == 200
    issuer.published_keys[-1]["use"] = "enc"
    assert (await AuthApp(clock, jwt=issuer_scheme(issuer)).get_with_token(issuer.token())).status_code == 401
