"""Who somebody has proven to be, and who owns what they make (R9). Pure."""

import hashlib
import json
from dataclasses import dataclass

API_KEY_ISSUER = "urn:aion:api-key"
BASIC_ISSUER = "urn:aion:basic"
IAM_ISSUER = "urn:aws:iam"
"""In an issuer's place where none has a name; a token's issuer is a URL."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A subject, by the word of an issuer."""

    issuer: str
    subject: str
    tenant: str = ""
    """The tenant that the credentials are for; no other may be named then."""
    scopes: frozenset[str] = frozenset()
    agents: frozenset[str] | None = None
    """The agents that the credentials are for; None for all."""

    @property
    def owner(self) -> str:
        """Who owns what the principal makes, outside of any tenant: the same for all that prove the same subject.

        Hashed as a list, so that no choice of a subject makes one's things another's.
        """
        pair = json.dumps([self.issuer, self.subject]).encode()
        return f"principal:{hashlib.sha256(pair).hexdigest()}"
