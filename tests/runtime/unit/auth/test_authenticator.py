"""Authentication with several schemes."""

from datetime import timedelta
from typing import Any

import pytest

from aion_core.auth.policy import Requirement
from aion_core.auth.schemes.api_key import ApiKeyScheme, make_key
from aion_core.auth.schemes.basic import BasicScheme
from tests.runtime.unit.auth.passwords import USERS, basic_header
from tests.support.auth_app import AuthApp, issuer_scheme
from tests.support.clock import ManualClock
from tests.support.issuer import Issuer, issuing


async def key(app: AuthApp, clock: ManualClock, principal: str = "alice", **more: Any) -> str:
    made = make_key(principal, now=clock.now(), **more)
    await app.keys.add(made.record)
    return made.text


async def test_policy_requirement_may_combine_authentication_schemes(issuer: Issuer, clock: ManualClock) -> None:
    """The policy requires either a token with the scope and a key, or a user name and a password."""
    both, alone = {"jwt": frozenset({"chat"}), "key": frozenset[str]()}, {"basic": frozenset[str]()}
    app = AuthApp(clock, both, alone, users=USERS, jwt=issuer_scheme(issuer), key=ApiKeyScheme(), basic=BasicScheme())
    token = ("Authorization", f"Bearer {issuer.token()}")
    our_key = ("X-API-Key", await key(app, clock, "machine"))
    assert (await app.get(token, our_key)).json()["subject"] == "alice", "the first principal is the caller"
    assert (await app.get(basic_header("bob", "Ünïcode"))).json()["subject"] == "bob"
    assert (await app.get(basic_header("bob", "Ünïcode"), our_key)).json()["subject"] == "bob"
    refused = await app.get(token)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == (
        'Bearer realm="aion", ApiKey realm="aion", header="X-API-Key", Basic realm="aion", charset="UTF-8"'
    )
    assert (await app.get(our_key)).status_code == 401
    unscoped = ("Authorization", f"Bearer {issuer.token(scope='x')}")
    assert (await app.get(unscoped, our_key)).status_code == 403
    for_two = ("X-API-Key", await key(app, clock, "machine", agents=frozenset({"two"})))
    assert (await app.get(token, for_two)).status_code == 403
    assert (await app.get(token, for_two, path="/agents/two/")).status_code == 200


@pytest.mark.parametrize(("schemes", "subject"), [(("jwt", "key"), "alice"), (("key", "jwt"), "machine")])
async def test_first_fulfilled_policy_requirement_identifies_caller(
    issuer: Issuer, clock: ManualClock, schemes: tuple[str, str], subject: str
) -> None:
    """A request fulfils two requirements: the first one in the policy identifies the caller."""
    entries = [{scheme: frozenset[str]()} for scheme in schemes]
    app = AuthApp(clock, *entries, jwt=issuer_scheme(issuer), key=ApiKeyScheme())
    given = [("Authorization", f"Bearer {issuer.token()}"), ("X-API-Key", await key(app, clock, "machine"))]
    for headers in (given, given[::-1]):
        assert (await app.get(*headers)).json()["subject"] == subject


@pytest.mark.parametrize("first", ["jwt", "key"])
@pytest.mark.parametrize("of_token", ["", "red", "RED"])
async def test_credentials_of_one_tenant_name_it_together(
    issuer: Issuer, clock: ManualClock, of_token: str, first: str
) -> None:
    """Send a token and a key, each with and without a tenant: the caller has the tenant of whichever names one."""
    jwt = issuer_scheme(issuer, **{"tenant_claim": "tid"} if of_token else {})
    both: Requirement = {name: frozenset() for name in sorted(("jwt", "key"), key=lambda name: name != first)}
    app = AuthApp(clock, both, jwt=jwt, key=ApiKeyScheme())
    token = ("Authorization", f"Bearer {issuer.token(tid=of_token)}")
    for of_key in ("", "red", "blue"):
        answer = await app.get(token, ("X-API-Key", await key(app, clock, tenant=of_key)))
        if of_token and of_key and of_token != of_key:
            assert answer.status_code == 403
        else:
            assert (answer.status_code, answer.json()["tenant"]) == (200, of_token or of_key)


async def test_every_refused_key_or_password_gets_same_response_bytes(clock: ManualClock) -> None:
    """Send missing, unknown, wrong, expired and revoked credentials: the responses have equal bytes and headers."""
    app = AuthApp(clock, users=USERS, key=ApiKeyScheme(), basic=BasicScheme())
    live, revoked = await key(app, clock), await key(app, clock)
    expired = await key(app, clock, expires=clock.now() + timedelta(seconds=1))
    await app.keys.revoke(revoked.split("_")[1])
    clock.move(2)
    wrong = live[:-1] + ("A" if live[-1] != "A" else "B")
    sent = [
        *(("X-API-Key", text) for text in (revoked, expired, f"{live[:-1]}!", wrong, "", "nonsense")),
        *(("Authorization", f"Basic {text}") for text in ("", "nonsense", "YQ==", "YWxpY2U6d3Jvbmc=", "bm9ib2R5Ong=")),
        basic_header("alice", "wrong"),
        ("Authorization", "Negotiate x"),
    ]
    missing = await app.get()
    assert (missing.status_code, (await app.get(("X-API-Key", live))).status_code) == (401, 200)
    for header in sent:
        refused = await app.get(header)
        assert (refused.status_code, refused.content, refused.headers) == (401, missing.content, missing.headers), (
            header
        )


async def test_every_refused_bearer_token_gets_same_response_whatever_the_issuer(
    issuer: Issuer, clock: ManualClock
) -> None:
    """The response reveals neither the issuer nor the cause, only that the request had a token."""
    with issuing() as other:
        other.add("k-1", "ES256")
        app = AuthApp(clock, jwt=issuer_scheme(issuer), second=issuer_scheme(other))
        for each in (issuer, other):
            assert (await app.get_with_token(each.token())).status_code == 200
        sent = [issuer.token(exp=1), other.token(exp=1), other.token(aud="x"), issuer.token(iss=other.url), "x"]
        refused = [await app.get_with_token(token) for token in (*sent, issuer.token(iss="https://unknown.example"))]
    first = refused[0]
    assert first.headers["www-authenticate"] == 'Bearer realm="aion", error="invalid_token"'
    assert [
        each
        for each in refused
        if (each.status_code, each.content, each.headers) != (401, first.content, first.headers)
    ] == []
