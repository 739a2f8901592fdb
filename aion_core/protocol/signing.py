"""Signed cards: a JSON Web Signature over what a client reads, made and checked (spec 8.4, RFC 7515, RFC 8785).

A signature covers a card as its reader has it, and the readers differ: a v1.0 client keeps v1.0's fields, a v0.3 client
those of v0.3, a tool may take the JSON as it came. So a card bears a signature for each reading, made with one key; a
reader is content with the one that fits (spec 8.4.3). None covers less than its reader sees.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from a2a.compat.v0_3 import types as v03
from a2a.utils._jcs import CanonicalizationError
from a2a.utils.signing import _clean_empty
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from google.protobuf.json_format import ParseDict, ParseError
from jwt import PyJWS
from jwt.algorithms import ECAlgorithm
from jwt.exceptions import PyJWTError
from jwt.utils import base64url_decode, base64url_encode, der_to_raw_signature

from aion_core.protocol.card import canonical_json, document, document_v1
from aion_core.protocol.keys import ALGORITHMS, CardKey
from aion_core.protocol.types import AgentCard, AgentCardSignature

V1, V03 = "v1.0", "v0.3"


class NotVerified(Exception):
    """The card's signatures do not hold; the text says why."""


class _SameEachTime(ECAlgorithm):
    """ES256 with the nonce of RFC 6979: every process of a deployment writes the same signature, and so the same card."""

    def sign(self, msg: bytes, key: ec.EllipticCurvePrivateKey) -> bytes:
        return der_to_raw_signature(key.sign(msg, ec.ECDSA(SHA256(), deterministic_signing=True)), key.curve)


_jws = PyJWS(algorithms=list(ALGORITHMS))
_jws.unregister_algorithm("ES256")
_jws.register_algorithm("ES256", _SameEachTime(SHA256, ec.SECP256R1))


def sign_card(card: AgentCard, key: CardKey) -> AgentCard:
    """Return the card with a signature for each way it is read, after those it has."""
    signed = AgentCard()
    signed.CopyFrom(card)
    if key.private is None:
        raise ValueError("a public key signs nothing")
    header = {"kid": key.id, "typ": "JOSE", **({"jku": key.url} if key.url else {})}
    downloaded = document(card)
    for payload in dict.fromkeys(payload for way in _ways(downloaded) for payload in _payloads(downloaded, way)):
        protected, _, signature = _jws.encode(payload, key.private, key.algorithm, header).split(".")
        signed.signatures.append(AgentCardSignature(protected=protected, signature=signature))
    return signed


def verify_card(read: Mapping[str, Any], key_for: Callable[[str], Iterable[CardKey]]) -> dict[str, str]:
    """Return the id of the key that signed each way of reading the card, which is given as it was read.

    `key_for` says which keys are trusted under an id. A card of both versions is read in two ways; a way without a good
    signature has the id "". Raises NotVerified where the first way has none: v1.0's, or v0.3's of a card without it.
    """
    ways = _ways(read)
    if not ways:
        raise NotVerified("It is no agent card: it names neither supportedInterfaces nor a url.")
    signatures = read.get("signatures")
    if not isinstance(signatures, list) or not signatures:
        raise NotVerified("The card is not signed.")
    verified = {way: _signer(signatures, _payloads(read, way), key_for) for way in ways}
    if not verified[ways[0]]:
        named = sorted({str(kid) for signature in signatures if (kid := _header(signature).get("kid"))})
        raise NotVerified(
            "No signature of the card holds: it was changed after it was signed, or signed by a key that is not among "
            f"those given. Its signatures name {', '.join(map(repr, named)) or 'no key'}."
        )
    return verified


def _ways(read: Mapping[str, Any]) -> list[str]:
    """Return the versions whose clients can read the card, by the field that tells them where to call."""
    return [way for way, field in ((V1, "supportedInterfaces"), (V03, "url")) if read.get(field)]


def _payloads(read: Mapping[str, Any], way: str) -> list[bytes]:
    """Return what a signature may cover for who reads the document in this way."""
    whole = {name: value for name, value in read.items() if name != "signatures"}
    try:
        if way == V03:
            theirs = v03.AgentCard.model_validate(whole)
            # As the SDK of v0.3 has it: what is a default is left out, and JSON escapes what is not ASCII.
            said = theirs.model_dump(mode="json", exclude_defaults=True, exclude_none=True, by_alias=True)
            return [
                json.dumps(_clean_empty(said), separators=(",", ":"), sort_keys=True).encode(),
                canonical_json(whole),
            ]
        card = ParseDict(whole, AgentCard(), ignore_unknown_fields=True)
        # As the specification has it, and as the SDK does, which also leaves out what is empty; then the JSON itself.
        return [
            canonical_json(document_v1(card)),
            canonical_json(_clean_empty(document_v1(card))),
            canonical_json(whole),
        ]
    except (ParseError, CanonicalizationError, ValueError) as error:
        raise NotVerified(f"It is no agent card: {str(error)[:300]}") from error


def _signer(signatures: list[Any], payloads: list[bytes], key_for: Callable[[str], Iterable[CardKey]]) -> str:
    """Return the id of the first trusted key with a good signature over one of the payloads; "" where none has."""
    for signature in signatures:
        header = _header(signature)
        for key in key_for(str(header.get("kid", ""))) if header else ():
            for payload in payloads:
                token = ".".join(
                    (str(signature["protected"]), base64url_encode(payload).decode(), str(signature.get("signature")))
                )
                try:
                    # The key says how it signs, never the header that comes with the signature.
                    _jws.decode(token, key.public, algorithms=[key.algorithm])
                except PyJWTError:
                    continue
                return key.id
    return ""


def _header(signature: Any) -> dict[str, Any]:
    try:
        header = json.loads(base64url_decode(signature["protected"]))
    except (TypeError, KeyError, ValueError):
        return {}
    return header if isinstance(header, dict) else {}
