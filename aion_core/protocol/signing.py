"""Signatures of cards: JSON Web Signatures (A2A 8.4, RFC 7515, RFC 8785).

A client verifies a signature over the fields that it reads: v1.0's fields, v0.3's fields, or, in a tool, the whole
JSON. So a card has one signature for each of these payloads, all with the same key. One valid signature is enough for a
client (A2A 8.4.3). Each signature covers everything that its client reads.
"""

import json
from collections.abc import Mapping
from typing import Any

from a2a.compat.v0_3 import types as v03
from a2a.utils._jcs import CanonicalizationError
from a2a.utils.signing import _clean_empty
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from google.protobuf.json_format import ParseDict, ParseError
from jwt import PyJWS
from jwt.algorithms import ECAlgorithm
from jwt.utils import der_to_raw_signature

from aion_core.protocol.card import canonical_json, document_v1
from aion_core.protocol.card_v03 import document
from aion_core.protocol.keys import ALGORITHMS, CardKey
from aion_core.protocol.types import AgentCard, AgentCardSignature

V1, V03 = "v1.0", "v0.3"


class _DeterministicES256(ECAlgorithm):
    """ES256 with the nonce of RFC 6979, so that every process signs a card with the same bytes."""

    def sign(self, msg: bytes, key: ec.EllipticCurvePrivateKey) -> bytes:
        return der_to_raw_signature(key.sign(msg, ec.ECDSA(SHA256(), deterministic_signing=True)), key.curve)


jws = PyJWS(algorithms=list(ALGORITHMS))
"""Encoder and decoder of signatures, for the algorithms of card keys only."""
jws.unregister_algorithm("ES256")
jws.register_algorithm("ES256", _DeterministicES256(SHA256, ec.SECP256R1))


def sign_card(card: AgentCard, key: CardKey) -> AgentCard:
    """Return a copy of the card with signatures: clients of different protocol versions verify different payloads."""
    signed = AgentCard()
    signed.CopyFrom(card)
    if key.private is None:
        raise ValueError("a public key cannot sign")
    header = {"kid": key.id, "typ": "JOSE", **({"jku": key.url} if key.url else {})}
    downloaded = document(card)
    payloads = [payload for version in versions_of(downloaded) for payload in payloads_of(downloaded, version)]
    for payload in dict.fromkeys(payloads):
        protected, _, signature = jws.encode(payload, key.private, key.algorithm, header).split(".")
        signed.signatures.append(AgentCardSignature(protected=protected, signature=signature))
    return signed


def versions_of(card: Mapping[str, Any]) -> list[str]:
    """Return the protocol versions in a card's JSON, newest first. Each version has its own field for the URL."""
    return [version for version, field in ((V1, "supportedInterfaces"), (V03, "url")) if card.get(field)]


def payloads_of(card: Mapping[str, Any], version: str) -> list[bytes]:
    """Return the payloads that clients of this protocol version may expect a card signature to cover.

    Raises ValueError if the JSON is not an agent card.
    """
    whole = {name: value for name, value in card.items() if name != "signatures"}
    try:
        if version == V03:
            theirs = v03.AgentCard.model_validate(whole)
            # Return the payload of v0.3's SDK (ASCII JSON without default values), and the whole JSON.
            fields = theirs.model_dump(mode="json", exclude_defaults=True, exclude_none=True, by_alias=True)
            return [
                json.dumps(_clean_empty(fields), separators=(",", ":"), sort_keys=True).encode(),
                canonical_json(whole),
            ]
        parsed = document_v1(ParseDict(whole, AgentCard(), ignore_unknown_fields=True))
        # Return the specification's payload, the SDK's payload without empty fields, and the whole JSON.
        return [canonical_json(parsed), canonical_json(_clean_empty(parsed)), canonical_json(whole)]
    except (ParseError, CanonicalizationError, ValueError) as error:
        raise ValueError(f"This is not an agent card: {str(error)[:300]}") from error
