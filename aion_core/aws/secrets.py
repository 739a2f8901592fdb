"""Reads a secret of Secrets Manager, once, when a function starts."""

from aion_core.aws.client import Calls
from aion_core.errors import ConfigurationError, StoreError


def read_secret(secrets: Calls, name: str) -> str:
    """Return the text of the secret with this name or ARN; raises ConfigurationError that names it."""
    try:
        answer = secrets.blocking("get_secret_value", SecretId=name)
    except StoreError as error:
        raise ConfigurationError(f"The secret {name} cannot be read: {error}.") from error
    text = answer.get("SecretString")
    if not isinstance(text, str):
        raise ConfigurationError(f"The secret {name} holds bytes, and has to hold the text of a key.")
    return text
