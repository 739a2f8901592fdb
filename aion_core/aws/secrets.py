"""Reader of secrets from Secrets Manager, and of SecureStrings from SSM Parameter Store, with Powertools Parameters."""

import re
from collections.abc import Iterable
from typing import Any

from aws_lambda_powertools.utilities.parameters import SecretsProvider, SSMProvider
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError
from botocore.exceptions import BotoCoreError, ClientError

from aion_core.aws.client import client_of
from aion_core.errors import ConfigurationError

_PARAMETER = re.compile(r"arn:[^:]+:ssm:[^:]*:[^:]*:parameter/.+")
_SECRET = re.compile(r"arn:[^:]+:secretsmanager:[^:]*:[^:]*:secret:.+|[^:]+")

DENIED = "AccessDeniedException"
MISSING = frozenset({"ResourceNotFoundException", "ParameterNotFound", "ParameterVersionNotFound"})
_KEY_DENIED = re.compile(r"kms:Decrypt|Access to KMS", re.IGNORECASE)
"""Pattern of AWS's message if reading a secret is allowed, but using its KMS key is forbidden."""

_REASONS = {
    "ResourceNotFoundException": "it does not exist",
    "ParameterNotFound": "it does not exist",
    "ParameterVersionNotFound": "it has no such version",
    "AccessDeniedException": (
        "this function may not read it: its role needs secretsmanager:GetSecretValue or ssm:GetParameter on it, and "
        "kms:Decrypt for a customer managed key"
    ),
    "DecryptionFailure": "its KMS key cannot decrypt it",
    "InvalidKeyId": "its KMS key cannot decrypt it",
}
"""Reasons for error texts, by AWS's error code, since AWS's own message may reveal too much."""


class SecretUnreadable(Exception):
    """Error: a secret cannot be read. The text is AWS's error code, or the name of botocore's exception."""

    def __init__(self, code: str, *, of_its_key: bool = False) -> None:
        super().__init__(code)
        self.code, self.of_its_key = code, of_its_key


class Secrets:
    """Reader of secrets without a cache: each call queries AWS."""

    def __init__(self) -> None:
        self._providers: dict[str, Any] = {}

    def connect(self, services: Iterable[str]) -> None:
        """Create the boto3 clients of these services now, because creating clients in several threads is not safe.

        Raises ConfigurationError if boto3 cannot create them, for example without a region.
        """
        try:
            for service in services:
                self._provider(service)
        except BotoCoreError as error:
            raise ConfigurationError(f"AWS clients for secrets cannot be created: {error}") from error

    def read(self, arn: str, variable: str) -> str:
        """Return the text of the secret with this ARN; the call blocks. `variable` is the ARN's environment variable.

        Raises ConfigurationError. Its text has the ARN and the variable, but never the secret.
        """
        named = f"The secret {arn} ({variable})"
        if _PARAMETER.fullmatch(arn):
            service = "ssm"
        elif _SECRET.fullmatch(arn):
            service = "secretsmanager"
        else:
            raise ConfigurationError(
                f"{variable} is {arn!r}; it must be the ARN of a Secrets Manager secret or of an SSM parameter."
            )
        try:
            text = self.text(service, arn)
        except SecretUnreadable as error:
            why = _REASONS.get(error.code, error.code or "AWS gives no reason")
            raise ConfigurationError(f"{named} cannot be read: {why}.") from None
        if text is None:
            raise ConfigurationError(f"{named} is binary; it must be text.")
        return text

    def text(self, service: str, name: str) -> str | None:
        """Return the text of a secret (`secretsmanager`) or parameter (`ssm`), or None if it is binary.

        The call blocks, and is thread-safe. `name` is a name or an ARN. Raises SecretUnreadable, without content of the
        secret.
        """
        options = {"decrypt": True} if service == "ssm" else {}
        try:
            text = self._provider(service).get(name, max_age=0, **options)
        except GetParameterError as error:
            # Read AWS's own exception from the context of Powertools' exception.
            raise _unreadable(error.__context__) from None
        return text if isinstance(text, str) else None

    def _provider(self, service: str) -> Any:
        if service not in self._providers:
            provider = SSMProvider if service == "ssm" else SecretsProvider
            self._providers[service] = provider(boto3_client=client_of(service))
        return self._providers[service]


def _unreadable(cause: BaseException | None) -> SecretUnreadable:
    match cause:
        case ClientError():
            error = cause.response.get("Error", {})
            code = error.get("Code", "")
            if cause.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 403:
                # Report each response with status 403 as DENIED, because AWS's error code differs if the policy of a
                # VPC endpoint denies access.
                code = DENIED
            return SecretUnreadable(code, of_its_key=bool(_KEY_DENIED.search(error.get("Message", ""))))
        case BotoCoreError():
            return SecretUnreadable(type(cause).__name__)
    return SecretUnreadable("")
