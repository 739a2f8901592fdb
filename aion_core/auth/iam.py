"""AWS IAM: who signed the request, as AWS tells the function in the event, and nobody else can (R7).

The front door has checked the signature before the function was called; what it found stands in `requestContext`, which
no caller writes. Headers are never looked at.
"""

import re
from collections.abc import Mapping
from typing import Any

from aion_core.auth.decision import Unproven
from aion_core.auth.declaration import AWS4, AwsIam, IamOwner
from aion_core.auth.event import text_in
from aion_core.auth.presented import Presented
from aion_core.auth.principal import IAM_ISSUER, Principal

_ASSUMED_ROLE = re.compile(r"(arn:[^:]+:sts::[0-9]+:assumed-role/[^/]+)/(.+)")


class IamVerifier:
    """Says who has signed the request."""

    def __init__(self, scheme: AwsIam) -> None:
        self._per_session = scheme.owner is IamOwner.SESSION

    async def verify(self, presented: Presented) -> Principal | Unproven:
        """Return the IAM principal, or why there is none."""
        arn, cognito = _signed_by(presented.event)
        if not arn:
            return Unproven.INVALID if presented.speaks(AWS4) else Unproven.MISSING
        role = _ASSUMED_ROLE.fullmatch(arn)
        # A session's name is its holder's choice; a new one must not cost them their tasks, or win them another's.
        subject = role[1] if role and not self._per_session else arn
        # Of an identity pool, whose users share a role, each has an id.
        return Principal(IAM_ISSUER, f"{subject}#{cognito}" if cognito else subject)


def _signed_by(event: Mapping[str, Any]) -> tuple[str, str]:
    """Return the ARN of who signed the request, and a Cognito identity's id; "" where there is none."""
    if event.get("version") == "2.0":
        # A Function URL's event.
        signed = ("requestContext", "authorizer", "iam")
        return text_in(event, *signed, "userArn"), text_in(event, *signed, "cognitoIdentity", "identityId")
    # A REST API's.
    identity = ("requestContext", "identity")
    return text_in(event, *identity, "userArn"), text_in(event, *identity, "cognitoIdentityId")
