"""AWS IAM: authenticates a request by its signer, whom AWS names in the Lambda event.

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
    """Choice of the owner of tasks from a session of an IAM role: the role or the session."""

    ROLE = "role"
    SESSION = "session"


class AwsIamScheme(Scheme):
    """Scheme of requests signed with AWS credentials. API Gateway or a Function URL verifies the signature."""

    verified_by_aws: ClassVar[bool] = True

    type: Literal["aws-iam"] = "aws-iam"
    owner: IamOwner = IamOwner.ROLE
    """Owner of a task: the `role` of its caller, whose sessions then share their tasks, or the `session`."""

    @property
    def request_headers(self) -> tuple[str, ...]:
        """Return the names of the headers of an AWS signature (Signature Version 4)."""
        return ("Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256")

    def on_card(self) -> SecurityScheme:
        """Return the scheme's entry for the agent card. It always has a description, to explain `AWS4-HMAC-SHA256`."""
        return http_scheme(AWS4, self.description or "Requests signed with AWS credentials (Signature Version 4).")

    def challenge(self, *, is_invalid: bool = False, missing_scopes: frozenset[str] | None = None) -> str:
        """Return the challenge of AWS IAM for `WWW-Authenticate`."""
        return f'{AWS4} realm="{REALM}"'

    def verifier(self, resources: VerifierResources) -> "IamVerifier":
        """Return a verifier for the signer. It uses no resources of the deployment."""
        return IamVerifier(self)


class IamVerifier:
    """Verifier for AWS IAM. It reads the signer of a request from the Lambda event."""

    def __init__(self, scheme: AwsIamScheme) -> None:
        self._per_session = scheme.owner is IamOwner.SESSION

    async def verify(self, credentials: RequestCredentials) -> Principal | AuthFailure:
        """Return the principal of the request's signer, or the reason for the failure."""
        arn, cognito = _signer(credentials.event)
        if not arn:
            return AuthFailure.INVALID if credentials.has_authorization(AWS4) else AuthFailure.MISSING
        role = _ASSUMED_ROLE.fullmatch(arn)
        # Omit the session name by default, because clients choose it: with another name, a client would no longer find
        # its tasks, or could reach those of another session.
        subject = role[1] if role and not self._per_session else arn
        # Add the Cognito identity id to the subject, because all users of a Cognito identity pool share one role.
        return Principal(IAM_ISSUER, f"{subject}#{cognito}" if cognito else subject)


def _signer(event: Mapping[str, Any]) -> tuple[str, str]:
    """Return the signer's ARN and Cognito identity id from a Lambda event. Each is "" if it is missing."""
    if event.get("version") == "2.0":
        # Read the signer as in events of payload version 2.0, which a Function URL sends.
        signer = ("requestContext", "authorizer", "iam")
        return event_text(event, *signer, "userArn"), event_text(event, *signer, "cognitoIdentity", "identityId")
    # Read the signer as in events of API Gateway's REST APIs.
    identity = ("requestContext", "identity")
    return event_text(event, *identity, "userArn"), event_text(event, *identity, "cognitoIdentityId")
