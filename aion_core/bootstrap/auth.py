"""Authentication of a deployment: the policies of its agents, and their authenticators."""

from collections.abc import Callable, Mapping

from aion_core.auth import authenticator
from aion_core.auth.api_keys import ApiKeys
from aion_core.auth.authenticator import Authenticator
from aion_core.auth.deployment import policies_in_force
from aion_core.auth.policy import AuthPolicy
from aion_core.auth.scheme import VerifierResources
from aion_core.auth.schemes.basic_users import parse_users
from aion_core.bootstrap.secrets import secret_or_file
from aion_core.clock import Clock
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.auth_policies import read_auth_policies
from aion_core.settings import Settings


def build_auth_policies(configs: Mapping[str, AgentConfig], settings: Settings) -> dict[str, AuthPolicy]:
    """Return the auth policies of a deployment by agent id. Raises ConfigurationError.

    `aion_core.auth.deployment` decides which apply, and whether callers are authenticated at all.
    """
    return policies_in_force(
        read_auth_policies(configs),
        configs.keys(),
        settings.entrypoints,
        is_off=not settings.auth,
        is_temporary=settings.store == "memory",
    )


def build_authenticators(
    policies: Mapping[str, AuthPolicy], settings: Settings, api_keys: Callable[[], ApiKeys], clock: Clock
) -> dict[str, Authenticator] | None:
    """Return authenticators by agent id, or None without policies. Raises ConfigurationError for a missing setting."""
    if not policies:
        return None
    resources = VerifierResources(clock, api_keys, basic_users=lambda: basic_users(settings))
    return authenticator.build_authenticators(policies, resources)


def basic_users(settings: Settings) -> dict[str, str]:
    """Return the password hashes of HTTP Basic users by name. Raises ConfigurationError, which names the source."""
    if not settings.basic_users_secret and not settings.basic_users_file:
        raise ConfigurationError(
            "aion.yaml declares HTTP Basic, and AION_BASIC_USERS_SECRET, the name of the secret with the users, is missing. "
            "A server that you run yourself can read them from a file, AION_BASIC_USERS_FILE."
        )
    setting = "AION_BASIC_USERS_SECRET" if settings.basic_users_secret else "AION_BASIC_USERS_FILE"
    text, source = secret_or_file(settings.basic_users_secret, settings.basic_users_file, setting)
    return parse_users(text, source)
