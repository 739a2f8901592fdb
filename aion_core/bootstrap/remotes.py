"""Composition of the remote agents: the names of aion.yaml with their credentials."""

import base64
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from aion_core.delegation.remote import Remote
from aion_core.delegation.remotes import Remotes
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.remotes import RemoteConfig, RemoteScheme

if TYPE_CHECKING:
    import httpx


def build_remotes(configs: Mapping[str, RemoteConfig]) -> Remotes:
    """Return the remote agents that aion.yaml names."""
    return Remotes({name: Remote(name, config.url, _auth(name, config)) for name, config in configs.items()})


def _auth(name: str, config: RemoteConfig) -> "Callable[[], httpx.Auth] | None":
    header = "Authorization"
    form: Callable[[str], str] = str
    match config.scheme:
        case None:
            return None
        case RemoteScheme.SIGV4:
            return lambda: _aws_signature(name, config.region)
        case RemoteScheme.API_KEY:
            header = config.header
        case RemoteScheme.BASIC:
            form = _basic
        case RemoteScheme.BEARER:
            form = _bearer
    return lambda: _secret_header(name, header, form, config.secret or "")


def _secret_header(name: str, header: str, form: Callable[[str], str], variable: str) -> "httpx.Auth":
    # Import late, because a turn without a call needs no HTTP client.
    from aion_core.delegation.credentials import SecretHeader

    return SecretHeader(name, header, form, variable)


def _bearer(token: str) -> str:
    return f"Bearer {token}"


def _basic(user_and_password: str) -> str:
    return f"Basic {base64.b64encode(user_and_password.encode()).decode()}"


def _aws_signature(name: str, region: str) -> "httpx.Auth":
    try:
        from aion_core.aws.request_signature import AwsSignature
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"The remote {name!r} has scheme: sigv4, which needs boto3. Install it: `uv add --dev boto3`."
        ) from error
    return AwsSignature(name, region)
