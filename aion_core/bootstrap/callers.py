"""Who may call, as aion.yaml declares it and this deployment can tell, and how much."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

from aion_core.agents.config import AgentConfig
from aion_core.agents.security import declared_securities
from aion_core.auth import fronts
from aion_core.auth.declaration import Security
from aion_core.bootstrap.secrets import secret_or_file
from aion_core.errors import ConfigurationError
from aion_core.ports import ApiKeys, Clock, RateLimits
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
    return fronts.settled(declared, configs.keys(), settings.fronts)


def build_guards(securities: Mapping[str, Security], settings: Settings, clock: Clock) -> "dict[str, Guard]":
    """Return what admits callers to each agent; raises ConfigurationError that names what is missing for it."""
    # What checks tokens and passwords is imported where somebody is asked.
    from aion_core.auth import verifiers

    return verifiers.build_guards(
        securities,
        clock=clock,
        api_keys=lambda: build_api_keys(settings, clock),
        users=lambda: basic_users(settings),
    )


def build_api_keys(settings: Settings, clock: Clock) -> ApiKeys:
    """Return where the API keys are."""
    if settings.store == "memory":
        from aion_core.memory.api_keys import MemoryApiKeys

        return MemoryApiKeys(clock)
    from aion_core.aws.api_keys import DynamoDBApiKeys
    from aion_core.aws.client import Calls

    return DynamoDBApiKeys(
        Calls("dynamodb", ThreadPoolExecutor(4, thread_name_prefix="keys")), clock, table=settings.table
    )


def build_rate_limits(settings: Settings, clock: Clock) -> RateLimits:
    """Return what counts how much each caller asks for."""
    if settings.store == "memory":
        from aion_core.memory.limits import MemoryRateLimits

        return MemoryRateLimits(clock)
    from aion_core.aws.client import Calls
    from aion_core.aws.limits import DynamoDBRateLimits

    dynamodb = Calls("dynamodb", ThreadPoolExecutor(4, thread_name_prefix="limits"))
    retention = timedelta(days=settings.retention_days)
    return DynamoDBRateLimits(dynamodb, clock, table=settings.table, retention=retention)


def basic_users(settings: Settings) -> dict[str, str]:
    """Return the users' hashes by their names; raises ConfigurationError that names where they lie."""
    from aion_core.auth.users import users_in

    if not settings.basic_users_secret and not settings.basic_users_file:
        raise ConfigurationError(
            "aion.yaml declares HTTP Basic, and AION_BASIC_USERS_SECRET, which names the secret with the users, is missing."
        )
    where = "AION_BASIC_USERS_SECRET" if settings.basic_users_secret else "AION_BASIC_USERS_FILE"
    text, source = secret_or_file(settings.basic_users_secret, settings.basic_users_file, where)
    return users_in(text, source)
