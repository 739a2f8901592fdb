"""Issuer of tokens, with a real HTTP server for its keys."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "https://agents.example.com"

_MAKERS: dict[str, Any] = {
    "RS256": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}
_JWK: dict[str, Any] = {
    "RS256": lambda key: RSAAlgorithm.to_jwk(key.public_key(), as_dict=True),
    "ES256": lambda key: ECAlgorithm.to_jwk(key.public_key(), as_dict=True),
    "EdDSA": lambda key: OKPAlgorithm.to_jwk(key.public_key(), as_dict=True),
}


class Issuer:
    """Issuer with its public keys at `url`/jwks.json, named by its discovery document."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: dict[str, tuple[str, Any]] = {}
        self.published_keys: list[dict[str, Any]] = []
        self.requested_paths: list[str] = []
        self.status = 200
        self.drips = False
        """True to send the start of a response, and then a space from time to time until the client disconnects."""
        self.dripping = threading.Semaphore(0)
        """Released at each sent space."""
        self.headers: dict[str, str] = {}
        """Additional headers of each response."""
        self.documents: dict[str, Any] = {}
        """Documents in place of the usual ones, by path."""

    def add(self, kid: str, algorithm: str = "ES256") -> None:
        """Add a signature key and publish it."""
        key = _MAKERS[algorithm]()
        self.keys[kid] = algorithm, key
        self.published_keys.append({**_JWK[algorithm](key), "kid": kid, "use": "sig", "alg": algorithm})

    def claims(self, **claims: Any) -> dict[str, Any]:
        """Return the claims of a valid token; arguments replace claims, and None removes a claim."""
        now = int(time.time())
        good = {"iss": self.url, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 300, "scope": "chat"}
        return {name: value for name, value in {**good, **claims}.items() if value is not None}

    def token(self, kid: str = "k-1", headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """Return a token signed by the key."""
        algorithm, key = self.keys[kid]
        return jwt.encode(self.claims(**claims), key, algorithm, headers={"kid": kid, **(headers or {})})

    def fetches(self) -> int:
        """Return how often clients have fetched the issuer's keys."""
        return self.requested_paths.count("/jwks.json")

    def answer(self, path: str) -> Any:
        """Return the document at the path, None for an unknown path."""
        if path in self.documents:
            return self.documents[path]
        if path == "/jwks.json":
            return {"keys": self.published_keys}
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/jwks.json"}
        return None


@contextmanager
def issuing() -> Iterator[Issuer]:
    """Run an issuer with one key, `k-1`, until the block ends."""
    issuer = Issuer()
    stopped = threading.Event()

    class IssuerHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.requested_paths.append(self.path)
            found = issuer.answer(self.path)
            status = issuer.status if found is not None else 404
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{issuer.url}/elsewhere.json")
            for name, value in issuer.headers.items():
                self.send_header(name, value)
            if issuer.drips:
                self.end_headers()
                self._drip()
                return
            content = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _drip(self) -> None:
            with suppress(OSError):
                while not stopped.wait(0.02):
                    self.wfile.write(b" ")
                    issuer.dripping.release()

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), IssuerHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        issuer.url = f"http://127.0.0.1:{server.server_port}"
        issuer.add("k-1")
        yield issuer
        stopped.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """Serve an issuer for one test."""
    with issuing() as found:
        yield found
