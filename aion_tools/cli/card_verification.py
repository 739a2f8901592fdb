"""Verification of a card's signatures with trusted keys."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jwt.exceptions import PyJWTError
from jwt.utils import base64url_decode, base64url_encode

from aion_core.protocol.keys import KINDS, CardKey
from aion_core.protocol.signing import jws, payloads_of, versions_of


class NotVerified(Exception):
    """Error: a card has no valid signature. The text gives the reason."""


def keys_in(text: str) -> list[CardKey]:
    """Parse the keys of a JWK set, or the key of a PEM or JWK text. Raises ValueError if no key is usable.

    Keys of other types in a set are ignored, because the set may have other purposes too.
    """
    try:
        listed = json.loads(text).get("keys") if text.lstrip().startswith("{") else None
    except ValueError as error:
        raise ValueError("it is not JSON") from error
    if listed is None:
        return [CardKey.read(text)]
    keys = []
    for members in listed if isinstance(listed, list) else ():
        try:
            keys.append(CardKey.read(json.dumps(members)))
        except ValueError:
            continue
    if not keys:
        raise ValueError(f"it has no key for the signatures of cards: {KINDS}")
    return keys


def verify_card(card: Mapping[str, Any], key_for: Callable[[str], Iterable[CardKey]]) -> dict[str, str]:
    """Verify the signatures of a card's JSON. Return the id of the signing key by protocol version.

    `key_for` returns the trusted keys with an id. The id is "" for a version without a valid signature. Raises
    NotVerified if the newest version of the card has no valid signature.
    """
    versions = versions_of(card)
    if not versions:
        raise NotVerified("This is not an agent card: it has neither supportedInterfaces nor a url.")
    signatures = card.get("signatures")
    if not isinstance(signatures, list) or not signatures:
        raise NotVerified("The card is not signed.")
    verified = {version: _signer(signatures, _readable_payloads(card, version), key_for) for version in versions}
    if not verified[versions[0]]:
        named = sorted({str(kid) for signature in signatures if (kid := _header(signature).get("kid"))})
        raise NotVerified(
            "The card has no valid signature: it was changed after it was signed, or its signing key is not among "
            f"those given. Its signatures name {', '.join(map(repr, named)) or 'no key'}."
        )
    return verified


def _readable_payloads(card: Mapping[str, Any], version: str) -> list[bytes]:
    try:
        return payloads_of(card, version)
    except ValueError as error:
        raise NotVerified(str(error)) from error


def _signer(signatures: list[Any], payloads: list[bytes], key_for: Callable[[str], Iterable[CardKey]]) -> str:
    """Return the id of the first trusted key with a valid signature of one of the payloads; "" without such a key."""
    for signature in signatures:
        header = _header(signature)
        for key in key_for(str(header.get("kid", ""))) if header else ():
            for payload in payloads:
                token = ".".join(
                    (str(signature["protected"]), base64url_encode(payload).decode(), str(signature.get("signature")))
                )
                try:
                    # Use the key's algorithm, because the header of a signature is not trusted.
                    jws.decode(token, key.public, algorithms=[key.algorithm])
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
