"""Who may call, as aion.yaml declares it and this deployment can tell."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from aion_core.agents.config import AgentConfig
from aion_core.agents.security import declared_securities
from aion_core.auth import entrypoints
from aion_core.auth.declaration import Security
from aion_core.bootstrap.secrets import secret_or_file
from aion_core.errors import ConfigurationError
from aion_core.ports import ApiKeys, Clock
from aion_core.settings import Settings

if TYPE_CHECKING:
    from aion_core.auth.guard import Guard


def who_may_call(configs: Mapping[str, AgentConfig], settings: Settings) -> dict[str, Security]:
    """Return who may call each agent; {} where everybody may: on a developer's machine.

    Raises ConfigurationError where a deployment declares nothing, or what cannot be (R96).
    """
    if not settings.auth:
        return {}
    declared = declared_securities(configs)
    if not declared and settings.store == "memory":
        return {}
    return entrypoints.settled(declared, configs.keys(), settings.entrypoints)


def build_guards(
    securities: Mapping[str, Security], settings: Settings, api_keys: Callable[[], ApiKeys], clock: Clock
) -> "dict[str, Guard]":
    """Return what admits callers to each agent; raises ConfigurationError that names what is missing for it."""
    # What checks tokens and passwords is imported where somebody is asked.
    from aion_core.auth import verifiers

    return verifiers.build_guards(
        securities,
        clock=clock,
        api_keys=api_keys,
        users=lambda: basic_users(settings),
    )


def basic_users(settings: Settings) -> dict[str, str]:
    """Return the users' hashes by their names; raises ConfigurationError that names where they lie."""
    from aion_core.auth.users import users_in

    if not settings.basic_users_secret and not settings.basic_users_file:
        raise ConfigurationError(
            "aion.yaml declares HTTP Basic, and AION_BASIC_USERS_SECRET, which names the secret with the users, is missing. "
            "A server of your own may read them from a file, AION_BASIC_USERS_FILE."
        )
    where = "AION_BASIC_USERS_SECRET" if settings.basic_users_secret else "AION_BASIC_USERS_FILE"
    text, source = secret_or_file(settings.basic_users_secret, settings.basic_users_file, where)
    return users_in(text, source)
