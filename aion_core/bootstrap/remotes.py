"""Composition of the remote agents: the names of aion.yaml with their credentials."""

import base64
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from aion_core.delegation.callback_address import callback_url, problem_of
from aion_core.delegation.remote import Remote
from aion_core.delegation.remotes import Remotes
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.remotes import RemoteConfig, RemoteScheme

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger(__name__)


def build_remotes(configs: Mapping[str, RemoteConfig], base_url: str = "") -> Remotes:
    """Return the remote agents that aion.yaml names. `base_url` is this server's public URL, for their callbacks.

    If they can't call back at this URL, the reason is logged, and their tasks are polled.
    """
    calling_back = [name for name, config in configs.items() if config.callback]
    if calling_back and (problem := problem_of(base_url)):
        names = ", ".join(calling_back)
        logger.warning("aion.remotes.%s has `callback: on`, but %s Until then, tasks are polled.", names, problem)
        calling_back = []
    remotes = {
        name: Remote(name, config.url, _auth(name, config), calls_back=config.callback)
        for name, config in configs.items()
    }
    return Remotes(remotes, callback_url=callback_url(base_url) if calling_back else "")


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
