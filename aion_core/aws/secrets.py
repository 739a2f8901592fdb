"""Reads secrets by Powertools Parameters: one of Secrets Manager, or a SecureString of SSM's Parameter Store (R14)."""

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
_OF_ITS_KEY = re.compile(r"kms:Decrypt|Access to KMS", re.IGNORECASE)
"""Words of AWS's sentence where the secret may be read, and the key that encrypts it may not be used."""

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


class SecretUnreadable(Exception):
    """AWS has not returned a secret; the text is AWS's code of the error, or the name of the failure."""

    def __init__(self, code: str, *, of_its_key: bool = False) -> None:
        super().__init__(code)
        self.code, self.of_its_key = code, of_its_key


class Secrets:
    """Reads secrets by their ARNs, each time anew: whoever needs one keeps it, as long as that is safe."""

    def __init__(self) -> None:
        self._providers: dict[str, Any] = {}

    def connect(self, services: Iterable[str]) -> None:
        """Make the clients of these services now, before several threads call `text`.

        Raises ConfigurationError where boto3 cannot make them: without a region, say.
        """
        try:
            for service in services:
                self._provider(service)
        except BotoCoreError as error:
            raise ConfigurationError(f"AWS cannot be asked for secrets: {error}") from error

    def read(self, arn: str, variable: str) -> str:
        """Return the text of the secret, whose ARN the variable holds; blocking.

        Raises ConfigurationError that names both, and says nothing of what the secret holds.
        """
        named = f"The secret {arn} ({variable})"
        if _PARAMETER.fullmatch(arn):
            service = "ssm"
        elif _SECRET.fullmatch(arn):
            service = "secretsmanager"
        else:
            raise ConfigurationError(
                f"{variable} is {arn!r}; it has to be the ARN of a Secrets Manager secret or of an SSM parameter."
            )
        try:
            text = self.text(service, arn)
        except SecretUnreadable as error:
            why = _SAID.get(error.code, error.code or "AWS does not say why")
            raise ConfigurationError(f"{named} cannot be read: {why}.") from None
        if text is None:
            raise ConfigurationError(f"{named} holds bytes, and has to hold text.")
        return text

    def text(self, service: str, name: str) -> str | None:
        """Return the text of a secret (`secretsmanager`) or parameter (`ssm`), None where it holds bytes; blocking.

        `name` is a name or an ARN. Several threads may call this. Raises SecretUnreadable, which holds nothing of the
        secret.
        """
        options = {"decrypt": True} if service == "ssm" else {}
        try:
            text = self._provider(service).get(name, max_age=0, **options)
        except GetParameterError as error:
            # Powertools puts AWS's sentence into its own; what AWS calls it stands behind.
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
            told = cause.response.get("Error", {})
            code = told.get("Code", "")
            if cause.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 403:
                # An endpoint's policy has no name of its own for it.
                code = DENIED
            return SecretUnreadable(code, of_its_key=bool(_OF_ITS_KEY.search(told.get("Message", ""))))
        case BotoCoreError():
            return SecretUnreadable(type(cause).__name__)
    return SecretUnreadable("")
