"""CORS policies of a deployment's agents, built from the configuration in aion.yaml and the settings."""

import logging
from collections.abc import Mapping

from aion_core.auth.deployment import SIGNED
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.aion_yaml.cors import CorsConfig
from aion_core.loading.auth_policies import read_auth_policies
from aion_core.settings import Settings
from aion_core.web.middleware.cors import CorsPolicy
from aion_core.web.middleware.loopback import LOOPBACK_ORIGIN

logger = logging.getLogger(__name__)


def build_cors_policies(configs: Mapping[str, AgentConfig], settings: Settings) -> dict[str, CorsPolicy]:
    """Return the CORS policies by agent id, without the agents that no origin may call.

    The policies allow the request headers of the declared authentication schemes even if authentication is off. Logs a
    warning if every HTTP entry point refuses preflight requests.
    """
    auth_policies = read_auth_policies(configs)
    policies = {}
    for agent_id, config in configs.items():
        cors = config.cors or CorsConfig(origins=[])
        if not cors.origins and not settings.loopback_origins:
            continue
        # SAM CLI verifies no signatures, whatever the entry point requires on AWS.
        if cors.origins and set(settings.entrypoints) == {SIGNED} and not settings.sam_local:
            logger.warning(
                "aion.yaml declares `cors` for %s, but each HTTP entry point requires AWS signatures, and a browser's "
                "preflight request has none. Deploy with ApiAuthorizer NONE for clients in browsers.",
                agent_id,
            )
        schemes = auth_policies[agent_id].required_schemes.values() if agent_id in auth_policies else ()
        policies[agent_id] = CorsPolicy(
            cors.origins,
            [*cors.headers, *(header for scheme in schemes for header in scheme.request_headers)],
            cors.max_age,
            pattern=LOOPBACK_ORIGIN if settings.loopback_origins else "",
        )
    return policies
