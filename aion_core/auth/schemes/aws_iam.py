"""AWS IAM: the signer of the request, as AWS reports it in the Lambda event.

API Gateway or a Function URL verifies the signature before it invokes the function, and writes the signer into
`requestContext`. The client cannot write there. Headers are ignored.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal

from aion_core.auth.credentials import RequestCredentials, event_text
from aion_core.auth.principal import IAM_ISSUER, Principal
from aion_core.auth.scheme import REALM, AuthFailure, Scheme, VerifierResources, http_scheme
from aion_core.protocol.types import SecurityScheme

AWS4 = "AWS4-HMAC-SHA256"
"""Scheme of the `Authorization` header of a request signed for AWS IAM."""

_ASSUMED_ROLE = re.compile(r"(arn:[^:]+:sts::[0-9]+:assumed-role/[^/]+)/(.+)")


class IamOwner(StrEnum):
    """Owner of the tasks of an IAM role's session."""

    ROLE = "role"
    SESSION = "session"


class AwsIamScheme(Scheme):
    """Requests signed with AWS credentials, verified by API Gateway or a Function URL."""

    verified_by_aws: ClassVar[bool] = True

    type: Literal["aws-iam"] = "aws-iam"
    owner: IamOwner = IamOwner.ROLE
    """Owner of the tasks of a role's session: the `role`, or the `session` alone."""

    def on_card(self) -> SecurityScheme:
        """Return the scheme's form on the card, always with a description: `AWS4-HMAC-SHA256` is no explanation."""
        return http_scheme(AWS4, self.description or "Requests signed with AWS credentials (Signature Version 4).")

    def challenge(self, *, is_invalid: bool = False, missing_scopes: frozenset[str] | None = None) -> str:
        """Return the challenge."""
        return f'{AWS4} realm="{REALM}"'

    def verifier(self, resources: VerifierResources) -> "IamVerifier":
        """Return a verifier, which needs no resource."""
        return IamVerifier(self)


class IamVerifier:
    """Reads the signer of a request from the Lambda event."""

    def __init__(self, scheme: AwsIamScheme) -> None:
        self._per_session = scheme.owner is IamOwner.SESSION

    async def verify(self, credentials: RequestCredentials) -> Principal | AuthFailure:
        """Return the IAM principal, or the reason of the failure."""
        arn, cognito = _signer(credentials.event)
        if not arn:
            return AuthFailure.INVALID if credentials.has_authorization(AWS4) else AuthFailure.MISSING
        role = _ASSUMED_ROLE.fullmatch(arn)
        # The client chooses the session's name: another name must neither lose tasks nor give access to tasks of others.
        subject = role[1] if role and not self._per_session else arn
        # The users of a Cognito identity pool share a role; each user has an identity id.
        return Principal(IAM_ISSUER, f"{subject}#{cognito}" if cognito else subject)


def _signer(event: Mapping[str, Any]) -> tuple[str, str]:
    """Return the signer's ARN and Cognito identity id; "" for a missing one."""
    if event.get("version") == "2.0":
        # Event of a Function URL.
        signer = ("requestContext", "authorizer", "iam")
        return event_text(event, *signer, "userArn"), event_text(event, *signer, "cognitoIdentity", "identityId")
    # Event of a REST API.
    identity = ("requestContext", "identity")
    return event_text(event, *identity, "userArn"), event_text(event, *identity, "cognitoIdentityId")
