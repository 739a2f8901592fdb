"""Reads secrets by Powertools Parameters: one of Secrets Manager, or a SecureString of SSM's Parameter Store (R14)."""

import re
from typing import Any

from aws_lambda_powertools.utilities.parameters import SecretsProvider, SSMProvider
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError
from botocore.exceptions import BotoCoreError, ClientError

from aion_core.aws.client import client_of
from aion_core.errors import ConfigurationError

_PARAMETER = re.compile(r"arn:[^:]+:ssm:[^:]*:[^:]*:parameter/.+")
_SECRET = re.compile(r"arn:[^:]+:secretsmanager:[^:]*:[^:]*:secret:.+|[^:]+")

_SAID = {
    "ResourceNotFoundException": "there is none",
    "ParameterNotFound": "there is none",
    "ParameterVersionNotFound": "there is none of this version",
    "AccessDeniedException": (
        "this function may not read it: its role needs secretsmanager:GetSecretValue or ssm:GetParameter on it, and "
        "kms:Decrypt where its key is your own"
    ),
    "DecryptionFailure": "its KMS key does not open it",
    "InvalidKeyId": "its KMS key does not open it",
}
"""What AWS calls it → what is said of it; AWS's own sentence may name more than the reader should see."""


class Secrets:
    """Reads secrets by their ARNs, each time anew: whoever needs one keeps it, as long as that is safe."""

    def __init__(self) -> None:
        self._providers: dict[str, Any] = {}

    def read(self, arn: str, variable: str) -> str:
        """Return the text of the secret, whose ARN the variable holds; blocking.

        Raises ConfigurationError that names both, and says nothing of what the secret holds.
        """
        named = f"The secret {arn} ({variable})"
        try:
            if _PARAMETER.fullmatch(arn):
                text = self._provider("ssm").get(arn, max_age=0, decrypt=True)
            elif _SECRET.fullmatch(arn):
                text = self._provider("secretsmanager").get(arn, max_age=0)
            else:
                raise ConfigurationError(
                    f"{variable} is {arn!r}; it has to be the ARN of a Secrets Manager secret or of an SSM parameter."
                )
        except GetParameterError as error:
            # Powertools puts AWS's sentence into its own; what AWS calls it stands behind.
            raise ConfigurationError(f"{named} cannot be read: {_why(error.__context__)}.") from None
        if not isinstance(text, str):
            raise ConfigurationError(f"{named} holds bytes, and has to hold text.")
        return text

    def _provider(self, service: str) -> Any:
        if service not in self._providers:
            provider = SSMProvider if service == "ssm" else SecretsProvider
            self._providers[service] = provider(boto3_client=client_of(service))
        return self._providers[service]


def _why(cause: BaseException | None) -> str:
    match cause:
        case ClientError():
            code = cause.response.get("Error", {}).get("Code", "")
            if cause.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 403:
                # An endpoint's policy has no name of its own for it.
                code = "AccessDeniedException"
            return _SAID.get(code, code or "AWS does not say why")
        case BotoCoreError():
            return type(cause).__name__
    return "AWS does not say why"
