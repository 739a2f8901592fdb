"""Signed cards: a downloaded card verifies with the SDKs and with a plain verifier; a changed card does not."""

import base64
import copy
import hashlib
import hmac
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import rfc8785
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import AgentCard
from a2a.utils.signing import create_signature_verifier
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from fastapi import FastAPI
from google.protobuf.json_format import ParseDict
from jwt import PyJWK
from moto.server import ThreadedMotoServer

from aion_core.errors import ConfigurationError
from aion_core.protocol.card import document_v1
from aion_core.protocol.card_v03 import document
from aion_core.protocol.keys import ALGORITHMS, CardKey
from aion_core.protocol.signing import sign_card
from aion_tools.cli.card_verification import NotVerified, keys_in, verify_card
from tests.support.declared import AION_YAML
from tests.support.deployment import BASE_URL, at, deployed
from tests.support.environments import python_with
from tests.support.rows import each_row

ROOT = Path(__file__).parents[4]
CARD = "/.well-known/agent-card.json"
KEYS = "/.well-known/jwks.json"
V1 = {"A2A-Version": "1.0"}


@pytest.fixture(scope="module")
def pems() -> dict[str, str]:
    return {algorithm: CardKey.generate(algorithm)[1] for algorithm in ALGORITHMS}


def key_file(folder: Path, pem: str) -> str:
    file = folder / "key.pem"
    file.write_text(pem, encoding="utf-8")
    return str(file)


async def read(app: FastAPI, path: str = CARD, **headers: str) -> Any:
    async with at(app) as client:
        answer = await client.get(path, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()


def unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def verified_by_hand(card: dict[str, Any], jwk: dict[str, str]) -> list[dict[str, Any]]:
    """Verify the card's JSON by RFC 7515 and RFC 8785 only; return the protected headers of the valid signatures."""
    payload = rfc8785.dumps({name: value for name, value in card.items() if name != "signatures"})
    covered = base64.urlsafe_b64encode(payload).rstrip(b"=")
    good = []
    for signature in card["signatures"]:
        header = json.loads(unpadded(signature["protected"]))
        signed = signature["protected"].encode() + b"." + covered
        try:
            check(header["alg"], jwk, unpadded(signature["signature"]), signed)
        except InvalidSignature:
            continue
        good.append(header)
    return good


def check(algorithm: str, jwk: dict[str, str], signature: bytes, signed: bytes) -> None:
    def number(name: str) -> int:
        return int.from_bytes(unpadded(jwk[name]))

    if algorithm == "ES256":
        point = ec.EllipticCurvePublicNumbers(number("x"), number("y"), ec.SECP256R1()).public_key()
        r, s = int.from_bytes(signature[:32]), int.from_bytes(signature[32:])
        point.verify(utils.encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
    elif algorithm == "RS256":
        modulus = rsa.RSAPublicNumbers(number("e"), number("n")).public_key()
        modulus.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
    else:
        ed25519.Ed25519PublicKey.from_public_bytes(unpadded(jwk["x"])).verify(signature, signed)


# --- Downloaded cards ---


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_signature_of_agent_card_is_valid_in_both_protocol_versions(
    tmp_path: Path, pems: dict[str, str], algorithm: str
) -> None:
    """The SDK verifies the card that it has parsed, a plain verifier the JSON of both documents (A2A 8.4.3)."""
    app = deployed(tmp_path, AION_YAML, AION_CARD_KEY_FILE=key_file(tmp_path, pems[algorithm]))
    (jwk,) = (await read(app, KEYS))["keys"]
    assert set(jwk) & {"d", "p", "q", "dp", "dq", "qi", "k"} == set()
    verifier = create_signature_verifier(lambda kid, jku: PyJWK(jwk), [algorithm])
    for path in (CARD, "/.well-known/agent.json", f"/agents/quiet{CARD}"):
        for headers in ({}, V1):
            async with at(app, "http://test") as client:
                resolver = A2ACardResolver(client, "http://test", path)
                card = await resolver.get_agent_card(http_kwargs={"headers": headers}, signature_verifier=verifier)
            assert card.skills
            (header,) = verified_by_hand(await read(app, path, **headers), jwk)
            assert header == {"alg": algorithm, "kid": jwk["kid"], "typ": "JOSE", "jku": f"{BASE_URL}{KEYS}"}


async def test_extended_card_is_signed_for_each_version(tmp_path: Path, pems: dict[str, str]) -> None:
    app = deployed(tmp_path, AION_YAML, AION_CARD_KEY_FILE=key_file(tmp_path, pems["ES256"]))
    (jwk,) = (await read(app, KEYS))["keys"]
    (key,) = keys_in(json.dumps({"keys": [jwk]}))
    async with at(app) as client:

        async def asked(method: str) -> Any:
            body = {"jsonrpc": "2.0", "id": 1, "method": method}
            return (await client.post("/", json=body)).json()["result"]

        card = await asked("GetExtendedAgentCard")
        assert len(verified_by_hand(card, jwk)) == 1
        create_signature_verifier(lambda kid, jku: PyJWK(jwk), ["ES256"])(ParseDict(card, AgentCard()))
        assert verify_card(await asked("agent/getAuthenticatedExtendedCard"), lambda _: [key]) == {"v0.3": key.id}
    old = await read(app, "/agent/authenticatedExtendedCard")
    assert len(verified_by_hand(old, jwk)) == 1
    assert len(verified_by_hand(await read(app, "/extendedAgentCard"), jwk)) == 1
    assert verify_card(await read(app, "/v1/card"), lambda _: [key]) == {"v0.3": key.id}
    assert verify_card(old, lambda _: [key]) == {"v1.0": key.id, "v0.3": key.id}


async def test_a2a_sdk_for_v03_verifies_card_signature(tmp_path: Path, pems: dict[str, str]) -> None:
    """Run the v0.3 SDK in an environment of its own: its resolver reads the card, its verifier checks it."""
    app = deployed(tmp_path, AION_YAML, AION_CARD_KEY_FILE=key_file(tmp_path, pems["ES256"]))
    (jwk,) = (await read(app, KEYS))["keys"]
    good, changed = await read(app), await read(app)
    changed["url"] = "https://evil.example.com/"
    files = [tmp_path / name for name in ("key.jwk", "good.json", "changed.json")]
    for file, content in zip(files, (jwk, good, changed), strict=True):
        file.write_text(json.dumps(content), encoding="utf-8")
    program = ROOT / "tests" / "runtime" / "unit" / "protocol" / "v03_verifier.py"
    python = python_with(ROOT / "tests" / "support" / "a2a-sdk-0.3.txt")
    ran = subprocess.run([python, program, *files], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    first, second = map(json.loads, ran.stdout.splitlines())
    assert (first["url"], first["protocolVersion"]) == (f"{BASE_URL}/", "0.3.0")
    assert first["supportsAuthenticatedExtendedCard"] is True
    assert [its["transport"] for its in first["additionalInterfaces"]] == ["JSONRPC", "HTTP+JSON"]
    assert first["skills"][0]["outputModes"] == ["application/json"]
    assert second == {"refused": "No valid signature found"}


# --- Changed cards ---


def signed(**changes: Any) -> tuple[dict[str, Any], CardKey]:
    key, _ = CardKey.generate()
    card = ParseDict(
        {
            "name": "A",
            "description": "d",
            "version": "1",
            "supportedInterfaces": [
                {"url": "https://a.example.com/", "protocolBinding": "JSONRPC", "protocolVersion": version}
                for version in ("1.0", "0.3")
            ],
            "capabilities": {"streaming": False},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "s", "name": "s", "description": "d", "tags": ["t"]}],
        }
        | changes,
        AgentCard(),
    )
    return document(sign_card(card, key)), key


@each_row(
    ("path", "value"),
    [
        (("name",), "B"),
        (("supportedInterfaces", 0, "url"), "https://evil.example.com/"),
        (("capabilities", "streaming"), True),
        (("skills", 0, "tags"), ["t", "u"]),
        (("iconUrl",), "https://evil.example.com/icon.png"),
    ],
)
def test_changed_card_has_invalid_signature(path: tuple[Any, ...], value: Any) -> None:
    card, key = signed()
    verify_card(card, lambda _: [key])
    holder: Any = card
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    with pytest.raises(NotVerified, match="The card has no valid signature"):
        verify_card(card, lambda _: [key])


def test_change_of_v03_card_field_invalidates_only_v03_signature() -> None:
    card, key = signed()
    card["url"] = "https://evil.example.com/"
    assert verify_card(card, lambda _: [key]) == {"v1.0": key.id, "v0.3": ""}


def test_signed_card_with_empty_scopes_has_valid_signature() -> None:
    """The SDK omits empty values before it verifies a card; a reader by A2A 5.7 does not: both must accept it."""
    card, key = signed(securityRequirements=[{"schemes": {"bearer": {"list": []}}}])
    jwk = key.public_jwk()
    v1 = document_v1(ParseDict(card, AgentCard(), ignore_unknown_fields=True))
    assert v1["securityRequirements"] == [{"schemes": {"bearer": {}}}]
    assert len(verified_by_hand(v1, jwk)) == 1
    create_signature_verifier(lambda kid, jku: PyJWK(jwk), ["ES256"])(ParseDict(v1, AgentCard()))


@each_row("signatures", [None, [], {}, "x"])
def test_verification_reports_card_without_signatures_as_unsigned(signatures: Any) -> None:
    card, key = signed()
    with pytest.raises(NotVerified, match="is not signed"):
        verify_card({**card, "signatures": signatures}, lambda _: [key])


@each_row(
    "odd",
    [
        None,
        1,
        {},
        {"protected": 1, "signature": "x"},
        {"protected": "!", "signature": "x"},
        {"protected": base64.urlsafe_b64encode(b"[]").decode(), "signature": "x"},
        {"protected": base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode(), "signature": ""},
        {"protected": base64.urlsafe_b64encode(b'{"alg":"ES256","kid":{}}').rstrip(b"=").decode(), "signature": None},
    ],
)
def test_invalid_card_signature_is_ignored(odd: Any) -> None:
    card, key = signed()
    assert verify_card({**card, "signatures": [odd, *card["signatures"]]}, lambda _: [key])["v1.0"] == key.id
    with pytest.raises(NotVerified):
        verify_card({**card, "signatures": [odd]}, lambda _: [key])


def test_card_signed_with_untrusted_key_is_refused() -> None:
    """Trust another key or none; then forge a signature with the public key as HMAC secret: all are refused."""
    card, key = signed()
    other, _ = CardKey.generate()
    with pytest.raises(NotVerified, match=key.id):
        verify_card(card, lambda _: [other])
    with pytest.raises(NotVerified):
        verify_card(card, lambda _: [])
    public = key.public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    payload = rfc8785.dumps({name: value for name, value in card.items() if name != "signatures"})
    protected = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": key.id}).encode()).rstrip(b"=")
    token = protected + b"." + base64.urlsafe_b64encode(payload).rstrip(b"=")
    forged = base64.urlsafe_b64encode(hmac.digest(public, token, "sha256")).rstrip(b"=").decode()
    with pytest.raises(NotVerified):
        verify_card({**card, "signatures": [{"protected": protected.decode(), "signature": forged}]}, lambda _: [key])


def test_card_may_have_signatures_of_two_keys() -> None:
    """Sign with two keys, as during a key rotation (A2A 8.4.3)."""
    card, old = signed()
    new, _ = CardKey.generate("EdDSA")
    both = document(sign_card(ParseDict(copy.deepcopy(card), AgentCard(), ignore_unknown_fields=True), new))
    for key in (old, new):
        trusted = {key.id: [key]}
        assert set(verify_card(both, lambda kid, trusted=trusted: trusted.get(kid, [])).values()) == {key.id}  # type: ignore[misc]


@pytest.mark.parametrize(("field", "way"), [("supportedInterfaces", "v1.0"), ("url", "v0.3")])
def test_card_signed_by_another_tool_is_verified(field: str, way: str) -> None:
    """Another tool signs a card with fields that we do not know: the signature covers them too."""
    card, key = signed()
    foreign = {name: card[name] for name in ("name", "description", "version", "capabilities", "skills", field)}
    foreign |= {"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "x-rating": {"stars": 5}}
    header = base64.urlsafe_b64encode(json.dumps({"alg": "ES256", "kid": key.id}).encode()).rstrip(b"=")
    token = header + b"." + base64.urlsafe_b64encode(rfc8785.dumps(foreign)).rstrip(b"=")
    assert isinstance(key.private, ec.EllipticCurvePrivateKey)
    r, s = utils.decode_dss_signature(key.private.sign(token, ec.ECDSA(hashes.SHA256())))
    signature = base64.urlsafe_b64encode(r.to_bytes(32) + s.to_bytes(32)).rstrip(b"=").decode()
    foreign["signatures"] = [{"protected": header.decode(), "signature": signature}]
    assert verify_card(foreign, lambda _: [key]) == {way: key.id}
    foreign["x-rating"] = {"stars": 6}
    with pytest.raises(NotVerified):
        verify_card(foreign, lambda _: [key])


# --- Keys ---


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_id_of_signing_key_is_its_thumbprint(pems: dict[str, str], algorithm: str) -> None:
    """Load one key from PEM and from JWK: both have the thumbprint of RFC 7638 as id."""
    key = CardKey.read(pems[algorithm])
    jwk = key.public_jwk()
    assert key.algorithm == algorithm
    needed = {name: jwk[name] for name in sorted({"crv", "kty", "x", "y", "e", "n"} & set(jwk))}
    digest = hashlib.sha256(json.dumps(needed, separators=(",", ":")).encode()).digest()
    assert key.id == jwk["kid"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    public = CardKey.read(json.dumps(jwk))
    assert public.private is None
    assert public.public == key.public
    assert CardKey.read(json.dumps({**jwk, "kid": "named"})).id == "named"
    assert CardKey.read(pems[algorithm], key_id="given").id == "given"
    # The key's repr contains no private part.
    assert "PRIVATE" not in repr(key)


def odd_keys() -> Iterator[tuple[str, str]]:
    def pem(key: Any, encryption: Any = None) -> str:
        form = serialization.PrivateFormat.PKCS8
        locked = encryption or serialization.NoEncryption()
        return str(key.private_bytes(serialization.Encoding.PEM, form, locked).decode())

    yield "", "not a key in PEM or JWK form"
    yield "hello", "not a key in PEM or JWK form"
    yield "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "not a key in PEM or JWK form"
    yield pem(ec.generate_private_key(ec.SECP384R1())), "an EC key of curve P-256"
    yield pem(rsa.generate_private_key(public_exponent=65537, key_size=1024)), "RSA key of 1024 bits"  # noqa: S505  # too short
    locked = serialization.BestAvailableEncryption(b"secret")
    yield pem(ec.generate_private_key(ec.SECP256R1()), locked), "encrypted"
    yield '{"kty": "EC"', "is not JSON"
    yield '{"kty": "oct", "k": "c2VjcmV0"}', "not a JWK|has to be"
    yield json.dumps({**CardKey.generate()[0].public_jwk(), "alg": "RS256"}), "alg is not ES256"
    yield json.dumps(CardKey.generate()[0].public_jwk()), "public key and cannot sign"


@each_row(("text", "told"), list(odd_keys()))
def test_unusable_signing_key_is_reported_at_start(tmp_path: Path, text: str, told: str) -> None:
    file = key_file(tmp_path, text)
    with pytest.raises(ConfigurationError, match=told) as refusal:
        deployed(tmp_path, AION_YAML, AION_CARD_KEY_FILE=file)
    assert file in str(refusal.value)
    assert "AION_CARD_KEY_FILE" in str(refusal.value)
    assert "c2VjcmV0" not in str(refusal.value)


def test_missing_signing_key_is_reported_at_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"Cannot read .*nowhere\.pem"):
        deployed(tmp_path, AION_YAML, AION_CARD_KEY_FILE=str(tmp_path / "nowhere.pem"))
    with pytest.raises(ConfigurationError, match="AION_CARD_KEY_SECRET and AION_CARD_KEY_FILE are both set"):
        deployed(tmp_path, AION_YAML, AION_CARD_KEY_FILE="a", AION_CARD_KEY_SECRET="b")


async def test_key_in_secrets_manager_signs_card(
    tmp_path: Path, pems: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        for name, value in {
            "AWS_ENDPOINT_URL": "http://{}:{}".format(*server.get_host_and_port()),
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }.items():
            monkeypatch.setenv(name, value)
        secrets: Any = boto3.session.Session().client("secretsmanager")
        arn = secrets.create_secret(Name="card-key", SecretString=pems["ES256"])["ARN"]
        bytes_arn = secrets.create_secret(Name="bytes", SecretBinary=b"\x00")["ARN"]
        elsewhere = "https://keys.example.com/jwks.json"
        app = deployed(
            tmp_path, AION_YAML, AION_CARD_KEY_SECRET=arn, AION_CARD_KEY_ID="2026", AION_CARD_KEY_URL=elsewhere
        )
        (jwk,) = (await read(app, KEYS))["keys"]
        (header,) = verified_by_hand(await read(app), jwk)
        assert (header["kid"], header["jku"]) == ("2026", elsewhere)
        for missing in (f"{arn}-gone", bytes_arn):
            with pytest.raises(ConfigurationError, match=missing):
                deployed(tmp_path, AION_YAML, AION_CARD_KEY_SECRET=missing)
    finally:
        server.stop()
