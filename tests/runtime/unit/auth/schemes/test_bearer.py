"""Bearer tokens: valid tokens of the issuer authenticate, others are refused."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import ValidationError

from aion_core.auth.schemes.bearer import BearerJwtScheme
from tests.support.auth_app import AuthApp, issuer_scheme
from tests.support.clock import ManualClock
from tests.support.downgraded import downgraded
from tests.support.issuer import AUDIENCE, Issuer, issuing
from tests.support.rows import each_row

URL = "https://login.example/keys"


@pytest.fixture
def app(issuer: Issuer, clock: ManualClock) -> AuthApp:
    return AuthApp(clock, jwt=issuer_scheme(issuer))


@pytest.mark.parametrize("field", ["issuer", "jwks_url"])
def test_addresses_of_issuer_have_tls_and_no_user(field: str) -> None:
    given: dict[str, Any] = {"issuer": URL, "audience": (AUDIENCE,), "jwks_url": URL}
    assert BearerJwtScheme(**given)
    refused = [each for each in downgraded(URL).values() if not each.startswith("https://") or {*"@?#"} & {*each}]
    for url in (*refused, "https://", "https:///keys"):
        with pytest.raises(ValidationError):
            BearerJwtScheme(**given | {field: url})


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_valid_token_authenticates_subject(app: AuthApp, issuer: Issuer, algorithm: str) -> None:
    issuer.add("k-2", algorithm)
    answer = await app.get_with_token(issuer.token("k-2"))
    assert (answer.status_code, answer.json()["subject"]) == (200, "alice")
    # The scheme's name is case-insensitive by RFC 9110, 11.1.
    assert (await app.get(("authorization", f"bEARER {issuer.token('k-2')}"))).json() == answer.json()


async def test_owner_id_depends_only_on_issuer_and_subject_of_token(
    app: AuthApp, issuer: Issuer, clock: ManualClock
) -> None:
    async def owner(**claims: Any) -> str:
        found: str = (await app.get_with_token(issuer.token(**claims))).json()["owner"]
        return found

    alice = await owner()
    assert await owner(scope="other", aud=[AUDIENCE, "x"], jti="2") == alice
    assert await owner(sub="bob") != alice
    assert "alice" not in alice
    with issuing() as other:
        elsewhere = AuthApp(clock, jwt=issuer_scheme(other))
        assert (await elsewhere.get_with_token(other.token())).json()["owner"] != alice


def hs256_with_the_public_key(issuer: Issuer) -> str:
    """Return a token signed by HMAC with the public key, which PyJWT refuses to create."""
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
    """Return a token whose `alg` is not the algorithm of its key."""
    header, claims = ({"alg": "RS256", "kid": "k-1", "typ": "JWT"}, issuer.claims())
    signed = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
    algorithm = jwt.get_algorithm_by_name("ES256")
    return f"{signed}.{encoded(algorithm.sign(signed.encode(), issuer.keys['k-1'][1]))}"


def without_claim(claim: str) -> Callable[[Issuer], str]:
    return lambda issuer: issuer.token(**dict[str, Any]({claim: None}))


BAD: dict[str, Callable[[Issuer], str]] = {
    "alg none": lambda issuer: jwt.encode(issuer.claims(), "", "none", headers={"kid": "k-1"}),
    "alg NoNe": lambda issuer: forged({"alg": "NoNe", "kid": "k-1"}, issuer.claims(), b"").rpartition(".")[0] + ".",
    "HS256 by the public key": hs256_with_the_public_key,
    "HS256 by nothing": lambda issuer: forged({"alg": "HS256", "kid": "k-1"}, issuer.claims(), b""),
    "expired": lambda issuer: issuer.token(exp=int(time.time()) - 61),
    "not yet": lambda issuer: issuer.token(nbf=int(time.time()) + 120),
    "issued in the future": lambda issuer: issuer.token(iat=int(time.time()) + 120),
    **{f"no {claim}": without_claim(claim) for claim in ("exp", "iat", "aud", "sub", "iss")},
    "another audience": lambda issuer: issuer.token(aud="https://other.example.com"),
    "no audience of a list": lambda issuer: issuer.token(aud=[]),
    "an audience that begins like ours": lambda issuer: issuer.token(aud=f"{AUDIENCE}.evil"),
    "another issuer": lambda issuer: issuer.token(iss="https://evil.example.com"),
    "an issuer with a slash more": lambda issuer: issuer.token(iss=f"{issuer.url}/"),
    "an empty subject": lambda issuer: issuer.token(sub=""),
    "a subject too long": lambda issuer: issuer.token(sub="x" * 513),
    "unknown kid": lambda issuer: issuer.token(headers={"kid": "k-9"}),
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


@each_row("kind", BAD)
async def test_invalid_bearer_token_is_refused(
    app: AuthApp, issuer: Issuer, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The responses differ only in the challenge's error code (RFC 6750, 3.1); the log has no part of the token."""
    caplog.set_level("DEBUG", "aion_core")
    token = BAD[kind](issuer)
    missing, wrong = await app.get(), await app.get_with_token(token)
    assert wrong.status_code == 401
    assert wrong.content == missing.content
    assert missing.headers.pop("www-authenticate") == 'Bearer realm="aion"'
    assert wrong.headers.pop("www-authenticate") == 'Bearer realm="aion", error="invalid_token"'
    assert wrong.headers == missing.headers
    for part in (part for part in token.split(".") if len(part) > 8):
        assert part not in caplog.text


async def test_bearer_token_that_supplies_its_own_signing_key_is_refused(app: AuthApp, issuer: Issuer) -> None:
    with issuing() as attacker:
        attacker.add("evil", "ES256")
        _, key = attacker.keys["evil"]
        for name in ("jku", "x5u"):
            headers = {"kid": "evil", name: f"{attacker.url}/jwks.json"}
            forged_token = jwt.encode(issuer.claims(), key, "ES256", headers=headers)
            assert (await app.get_with_token(forged_token)).status_code == 401
        shown = {**attacker.published_keys[-1]}
        forged_token = jwt.encode(issuer.claims(), key, "ES256", headers={"kid": "k-1", "jwk": shown})
        assert (await app.get_with_token(forged_token)).status_code == 401
        assert attacker.requested_paths == []


async def test_bearer_token_is_accepted_despite_small_clock_difference(app: AuthApp, issuer: Issuer) -> None:
    now = int(time.time())
    assert (await app.get_with_token(issuer.token(exp=now - 50))).status_code == 200
    assert (await app.get_with_token(issuer.token(iat=now + 50, nbf=now + 50))).status_code == 200


@pytest.mark.parametrize(
    ("audience", "status"), [("app-client", 401), (["app-client", "https://x"], 401), (AUDIENCE, 200)]
)
async def test_id_token_is_accepted_only_with_api_audience(
    app: AuthApp, issuer: Issuer, audience: Any, status: int
) -> None:
    """Some providers issue ID tokens for the API, but most for an app: only the former are accepted."""
    token = issuer.token(aud=audience, azp="app-client", nonce="n-1", at_hash="d2hhdA", scope=None)
    assert (await app.get_with_token(token)).status_code == status


async def test_two_authorization_headers_are_refused(app: AuthApp, issuer: Issuer) -> None:
    token = ("Authorization", f"Bearer {issuer.token()}")
    assert (await app.get(token)).status_code == 200
    assert (await app.get(token, token)).status_code == 401
    assert (await app.get(token, ("authorization", "Basic YTpi"))).status_code == 401
    # Send both headers joined, because Lambda joins repeated headers.
    assert (await app.get(("Authorization", f"{token[1]},{token[1]}"))).status_code == 401


async def test_token_in_query_is_ignored(app: AuthApp, issuer: Issuer) -> None:
    """Send the token in the URL, which RFC 6750, 5.3, advises against."""
    token = issuer.token()
    for path in (f"/?access_token={token}", f"/?Authorization=Bearer%20{token}", f"/?token={token}"):
        assert (await app.get(path=path)).status_code == 401


async def test_forged_gateway_identity_headers_are_ignored(app: AuthApp, issuer: Issuer) -> None:
    spoofed = [
        ("X-Forwarded-User", "alice"),
        ("X-Amzn-Oidc-Identity", "alice"),
        ("X-Amzn-Oidc-Data", issuer.token()),
        ("X-Amzn-Request-Context", '{"authorizer": {"iam": {"userArn": "arn:aws:iam::1:user/a"}}}'),
        ("X-Original-Authorization", f"Bearer {issuer.token()}"),
        ("Cookie", f"Authorization=Bearer {issuer.token()}"),
    ]
    assert (await app.get(*spoofed)).status_code == 401


@each_row(
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
async def test_bearer_token_needs_required_scopes(
    issuer: Issuer, clock: ManualClock, claims: dict[str, Any], more: dict[str, Any], status: int
) -> None:
    app = AuthApp(clock, {"jwt": frozenset({"chat"})}, jwt=issuer_scheme(issuer, **more))
    answer = await app.get_with_token(issuer.token(**claims))
    assert answer.status_code == status
    if status == 403:
        challenge = 'Bearer realm="aion", error="insufficient_scope", scope="chat"'
        assert answer.headers["www-authenticate"] == challenge
        # An expired token gets 401, without the scope that it lacks.
        assert (await app.get_with_token(issuer.token(exp=1, **claims))).status_code == 401


async def test_bearer_token_with_undeclared_algorithm_is_refused(issuer: Issuer, clock: ManualClock) -> None:
    issuer.add("rsa", "RS256")
    app = AuthApp(clock, jwt=issuer_scheme(issuer, algorithms=("RS256",)))
    assert (await app.get_with_token(issuer.token("rsa"))).status_code == 200
    assert (await app.get_with_token(issuer.token("k-1"))).status_code == 401
