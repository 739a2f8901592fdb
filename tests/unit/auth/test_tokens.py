"""Bearer tokens: whose they are, and that nothing but a good one of the declared issuer is anybody's (R5)."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from aion_core.auth.declaration import Jwt
from tests.support.clock import ManualClock
from tests.support.issuer import AUDIENCE, Issuer, issuing
from tests.unit.auth.door import Door


def scheme(issuer: Issuer, **more: Any) -> Jwt:
    return Jwt(**{"issuer": issuer.url, "audience": (AUDIENCE,), "jwks_url": f"{issuer.url}/jwks.json", **more})


@pytest.fixture
def door(issuer: Issuer, clock: ManualClock) -> Door:
    return Door(clock, jwt=scheme(issuer))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_good_token_says_whose_request_it_is(door: Door, issuer: Issuer, algorithm: str) -> None:
    """R96."""
    issuer.add("k-2", algorithm)
    answer = await door.bearer(issuer.token("k-2"))
    assert (answer.status_code, answer.json()["subject"]) == (200, "alice")
    # RFC 9110, 11.1: the scheme's name is in whatever case.
    assert (await door.ask(("authorization", f"bEARER {issuer.token('k-2')}"))).json() == answer.json()


async def test_an_owner_is_an_issuers_subject_and_nobody_else(door: Door, issuer: Issuer, clock: ManualClock) -> None:
    """R96: R9."""

    async def owner(**claims: Any) -> str:
        found: str = (await door.bearer(issuer.token(**claims))).json()["owner"]
        return found

    alice = await owner()
    assert await owner(scope="other", aud=[AUDIENCE, "x"], jti="2") == alice
    assert await owner(sub="bob") != alice
    assert "alice" not in alice
    with issuing() as other:
        elsewhere = Door(clock, jwt=scheme(other))
        assert (await elsewhere.bearer(other.token())).json()["owner"] != alice


def hs256_with_the_public_key(issuer: Issuer) -> str:
    """56: signed with what anybody can read; PyJWT itself would refuse to sign so."""
    issuer.add("rsa", "RS256")
    pem = issuer.keys["rsa"][1].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return forged({"alg": "HS256", "kid": "rsa", "typ": "JWT"}, issuer.claims(), pem)


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def forged(header: dict[str, Any], claims: dict[str, Any], secret: bytes) -> str:
    signed = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}"
    return f"{signed}.{encoded(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def by_another_key(issuer: Issuer) -> str:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    issuer.add("rsa", "RS256")
    return jwt.encode(issuer.claims(), stranger, "RS256", headers={"kid": "rsa"})


def tampered(issuer: Issuer) -> str:
    header, _, signature = issuer.token().split(".")
    claims = base64.urlsafe_b64encode(json.dumps(issuer.claims(sub="root")).encode()).rstrip(b"=").decode()
    return f"{header}.{claims}.{signature}"


def by_an_algorithm_that_is_not_the_keys(issuer: Issuer) -> str:
    """Signed as its key signs, and said to be signed otherwise."""
    header, claims = ({"alg": "RS256", "kid": "k-1", "typ": "JWT"}, issuer.claims())
    signed = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
    algorithm = jwt.get_algorithm_by_name("ES256")
    return f"{signed}.{encoded(algorithm.sign(signed.encode(), issuer.keys['k-1'][1]))}"


def without_claim(claim: str, issuer: Issuer) -> str:
    without: dict[str, Any] = {claim: None}
    return issuer.token(**without)


BAD: dict[str, Callable[[Issuer], str]] = {
    "alg none, 55": lambda issuer: jwt.encode(issuer.claims(), "", "none", headers={"kid": "k-1"}),
    "alg NoNe": lambda issuer: forged({"alg": "NoNe", "kid": "k-1"}, issuer.claims(), b"").rpartition(".")[0] + ".",
    "HS256 by the public key, 56": hs256_with_the_public_key,
    "HS256 by nothing": lambda issuer: forged({"alg": "HS256", "kid": "k-1"}, issuer.claims(), b""),
    "expired, 57": lambda issuer: issuer.token(exp=int(time.time()) - 61),
    "not yet, 57": lambda issuer: issuer.token(nbf=int(time.time()) + 120),
    "issued in the future": lambda issuer: issuer.token(iat=int(time.time()) + 120),
    **{f"no {claim}, 57": partial(without_claim, claim) for claim in ("exp", "iat", "aud", "sub", "iss")},
    "another audience, 58": lambda issuer: issuer.token(aud="https://other.example.com"),
    "no audience of a list": lambda issuer: issuer.token(aud=[]),
    "an audience that begins like ours": lambda issuer: issuer.token(aud=f"{AUDIENCE}.evil"),
    "another issuer, 58": lambda issuer: issuer.token(iss="https://evil.example.com"),
    "an issuer with a slash more": lambda issuer: issuer.token(iss=f"{issuer.url}/"),
    "an empty subject": lambda issuer: issuer.token(sub=""),
    "a subject too long": lambda issuer: issuer.token(sub="x" * 513),
    "unknown kid, 59": lambda issuer: issuer.token(headers={"kid": "k-9"}),
    "no kid": lambda issuer: jwt.encode(issuer.claims(), issuer.keys["k-1"][1], "ES256"),
    "critical extensions": lambda issuer: issuer.token(headers={"crit": ["x"], "x": 1}),
    "another's key": by_another_key,
    "another algorithm than its key's": by_an_algorithm_that_is_not_the_keys,
    "other claims": tampered,
    "no signature": lambda issuer: issuer.token().rpartition(".")[0] + ".",
    "text": lambda issuer: "secret",
    "nothing": lambda issuer: "",
    "two words": lambda issuer: f"{issuer.token()} x",
    "two tokens": lambda issuer: f"{issuer.token()}, Bearer {issuer.token()}",
    "long": lambda issuer: "a" * 20_000,
    "deep": lambda issuer: forged({"alg": "ES256", "kid": "k-1"}, {}, b"").split(".")[0] + "." + base64.urlsafe_b64encode(b"[" * 11_000).decode() + ".x",
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
async def test_any_other_token_is_nobodys(
    door: Door, issuer: Issuer, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R97: 55-60, always with the same bytes, and with nothing of the token in the log."""
    caplog.set_level("DEBUG", "aion_core")
    token = BAD[kind](issuer)
    missing, wrong = await door.ask(), await door.bearer(token)
    assert wrong.status_code == 401
    assert wrong.content == missing.content
    assert missing.headers["www-authenticate"] == 'Bearer realm="aion"'
    assert wrong.headers["www-authenticate"] == 'Bearer realm="aion", error="invalid_token"'
    for part in (part for part in token.split(".") if len(part) > 8):
        assert part not in caplog.text


async def test_where_a_token_says_that_its_key_is_is_not_looked_at(door: Door, issuer: Issuer) -> None:
    """R97: 60."""
    with issuing() as attacker:
        attacker.add("evil", "ES256")
        _, key = attacker.keys["evil"]
        for name in ("jku", "x5u"):
            headers = {"kid": "evil", name: f"{attacker.url}/jwks.json"}
            forged_token = jwt.encode(issuer.claims(), key, "ES256", headers=headers)
            assert (await door.bearer(forged_token)).status_code == 401
        shown = {**attacker.shown[-1]}
        forged_token = jwt.encode(issuer.claims(), key, "ES256", headers={"kid": "k-1", "jwk": shown})
        assert (await door.bearer(forged_token)).status_code == 401
        assert attacker.asked == []


async def test_clocks_may_differ_by_a_minute(door: Door, issuer: Issuer) -> None:
    now = int(time.time())
    assert (await door.bearer(issuer.token(exp=now - 50))).status_code == 200
    assert (await door.bearer(issuer.token(iat=now + 50, nbf=now + 50))).status_code == 200


async def test_two_authorizations_are_none(door: Door, issuer: Issuer) -> None:
    """R97: 62."""
    token = ("Authorization", f"Bearer {issuer.token()}")
    assert (await door.ask(token)).status_code == 200
    assert (await door.ask(token, token)).status_code == 401
    assert (await door.ask(token, ("authorization", "Basic YTpi"))).status_code == 401
    # As Lambda hands them on: in one.
    assert (await door.ask(("Authorization", f"{token[1]},{token[1]}"))).status_code == 401


async def test_a_token_in_the_query_is_none(door: Door, issuer: Issuer) -> None:
    """R97: 63; RFC 6750, 5.3."""
    token = issuer.token()
    for path in (f"/?access_token={token}", f"/?Authorization=Bearer%20{token}", f"/?token={token}"):
        assert (await door.ask(path=path)).status_code == 401


async def test_headers_that_look_like_a_gateways_are_nobodys_word(door: Door, issuer: Issuer) -> None:
    """R97: 67."""
    spoofed = [
        ("X-Forwarded-User", "alice"),
        ("X-Amzn-Oidc-Identity", "alice"),
        ("X-Amzn-Oidc-Data", issuer.token()),
        ("X-Amzn-Request-Context", '{"authorizer": {"iam": {"userArn": "arn:aws:iam::1:user/a"}}}'),
        ("X-Original-Authorization", f"Bearer {issuer.token()}"),
        ("Cookie", f"Authorization=Bearer {issuer.token()}"),
    ]
    assert (await door.ask(*spoofed)).status_code == 401


@pytest.mark.parametrize(
    ("claims", "more", "status"),
    [
        ({"scope": "read chat write"}, {}, 200),
        ({"scope": "chat.read"}, {}, 403),
        ({"scope": "CHAT"}, {}, 403),
        ({"scope": None}, {}, 403),
        ({"scope": None, "scp": ["chat"]}, {}, 200),
        ({"scope": None, "scp": "read chat"}, {}, 200),
        ({"scope": {"chat": True}}, {}, 403),
        ({"scope": "x", "roles": ["chat"]}, {"scope_claim": "roles"}, 200),
        ({"scope": "chat"}, {"scope_claim": "roles"}, 403),
    ],
)
async def test_a_token_needs_the_scopes_of_the_agent(
    issuer: Issuer, clock: ManualClock, claims: dict[str, Any], more: dict[str, Any], status: int
) -> None:
    """R97: 66."""
    door = Door(clock, {"jwt": frozenset({"chat"})}, jwt=scheme(issuer, **more))
    answer = await door.bearer(issuer.token(**claims))
    assert answer.status_code == status
    if status == 403:
        challenge = 'Bearer realm="aion", error="insufficient_scope", scope="chat"'
        assert answer.headers["www-authenticate"] == challenge
        # A token that is no good is not told what it lacks.
        assert (await door.bearer(issuer.token(exp=1, **claims))).status_code == 401


async def test_an_algorithm_that_is_not_declared_signs_nothing(issuer: Issuer, clock: ManualClock) -> None:
    issuer.add("rsa", "RS256")
    door = Door(clock, jwt=scheme(issuer, algorithms=("RS256",)))
    assert (await door.bearer(issuer.token("rsa"))).status_code == 200
    assert (await door.bearer(issuer.token("k-1"))).status_code == 401
