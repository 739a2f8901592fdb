"""Keys for card signatures: PEM and JWK input, generation, ids and public key sets (RFC 7517, RFC 7638)."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from jwt import PyJWK
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError
from jwt.utils import base64url_encode
from msgspec import Struct

from aion_core.errors import ConfigurationError

ALGORITHMS = ("ES256", "RS256", "EdDSA")
"""Signature algorithms of card keys. The first one is the default."""
MIN_RSA_BITS = 2048

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey

KINDS = "an EC key of curve P-256, an RSA key, or an Ed25519 key"
"""The types of keys for the signatures of cards, for error messages."""

_NAMED_BY = {"EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n"), "OKP": ("crv", "kty", "x")}


class CardKey(Struct, frozen=True):
    """Private or public key for card signatures. `public_jwk` never contains the private part."""

    public: PublicKey
    algorithm: str
    id: str
    """Id of the key in signatures. The default is its RFC 7638 thumbprint."""
    private: PrivateKey | None = None
    url: str = ""
    """URL of the public key, for the `jku` header of a signature."""

    @classmethod
    def read(cls, text: str, *, key_id: str = "", url: str = "") -> Self:
        """Parse a key in PEM or JWK format. Raises ValueError; the error does not contain the key."""
        named, found = _read_jwk(text) if text.lstrip().startswith("{") else ({}, _read_pem(text))
        if not isinstance(found, PrivateKey | PublicKey):
            raise ValueError(f"it has to be {KINDS}")
        private = found if isinstance(found, PrivateKey) else None
        public = found.public_key() if isinstance(found, PrivateKey) else found
        algorithm = _algorithm(public)
        if named.get("alg", algorithm) != algorithm:
            raise ValueError(f"its alg is not {algorithm}, the algorithm of its key type")
        return cls(public, algorithm, key_id or str(named.get("kid") or _thumbprint(public)), private, url)

    @classmethod
    def generate(cls, algorithm: str = ALGORITHMS[0], *, key_id: str = "") -> tuple[Self, str]:
        """Generate a private key. Return it together with its PEM text."""
        made: PrivateKey
        match algorithm:
            case "RS256":
                made = rsa.generate_private_key(public_exponent=65537, key_size=3072)
            case "EdDSA":
                made = ed25519.Ed25519PrivateKey.generate()
            case _:
                made = ec.generate_private_key(ec.SECP256R1())
        pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        return cls.read(pem, key_id=key_id), pem

    def public_jwk(self) -> dict[str, str]:
        """Return the public key as a JWK for a key set."""
        return {**_members(self.public), "alg": self.algorithm, "kid": self.id, "use": "sig"}


def signing_key(text: str, source: str, *, key_id: str = "", url: str = "") -> CardKey:
    """Parse a private key in PEM or JWK format. Raises ConfigurationError, which names the source of the text."""
    try:
        key = CardKey.read(text, key_id=key_id, url=url)
    except ValueError as error:
        raise ConfigurationError(f"The key of {source} cannot be used: {error}.") from error
    if key.private is None:
        raise ConfigurationError(f"The key of {source} cannot be used: it is a public key and cannot sign.")
    return key


def _read_jwk(text: str) -> tuple[dict[str, Any], Any]:
    try:
        members = json.loads(text)
    except ValueError as error:
        raise ValueError("it begins like a JWK, but it is not JSON") from error
    try:
        return members, PyJWK({name: value for name, value in members.items() if name != "alg"}).key
    except (PyJWTError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"it is not a JWK of {KINDS}") from error


def _read_pem(text: str) -> Any:
    pem = text.encode()
    try:
        return load_pem_private_key(pem, None) if b"PRIVATE KEY" in pem else load_pem_public_key(pem)
    except TypeError as error:
        raise ValueError("it is encrypted: store it without a passphrase, in a protected place") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError("it is not a key in PEM or JWK form") from error


def _algorithm(public: PublicKey) -> str:
    match public:
        case ec.EllipticCurvePublicKey(curve=ec.SECP256R1()):
            return "ES256"
        case rsa.RSAPublicKey(key_size=size):
            if size < MIN_RSA_BITS:
                raise ValueError(f"it is an RSA key of {size} bits, and needs {MIN_RSA_BITS}")
            return "RS256"
        case ed25519.Ed25519PublicKey():
            return "EdDSA"
    raise ValueError(f"it has to be {KINDS}")


def _members(public: PublicKey) -> dict[str, str]:
    match public:
        case ec.EllipticCurvePublicKey():
            members: Mapping[str, Any] = ECAlgorithm.to_jwk(public, as_dict=True)
        case rsa.RSAPublicKey():
            members = RSAAlgorithm.to_jwk(public, as_dict=True)
        case _:
            members = OKPAlgorithm.to_jwk(public, as_dict=True)
    return {name: members[name] for name in _NAMED_BY[members["kty"]]}


def _thumbprint(public: PublicKey) -> str:
    named = json.dumps(_members(public), separators=(",", ":"), sort_keys=True)
    return base64url_encode(hashlib.sha256(named.encode()).digest()).decode()
