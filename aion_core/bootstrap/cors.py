"""CORS policies of a deployment's agents, built from the configuration in aion.yaml and the settings."""

from collections.abc import Mapping

from aion_core.agents.config import AgentConfig
from aion_core.agents.config_sections import CorsConfig
from aion_core.agents.security import read_auth_policies
from aion_core.web.cors import CorsPolicy
from aion_core.web.middleware import LOOPBACK_ORIGIN


def build_cors_policies(configs: Mapping[str, AgentConfig], *, with_loopback: bool) -> dict[str, CorsPolicy]:
    """Return the CORS policies by agent id, without the agents that no origin may call.

    `with_loopback` allows the origins of servers on this machine too. A page may send the credentials of the declared
    schemes even if authentication is off.
    """
    auth_policies = read_auth_policies(configs)
    policies = {}
    for agent_id, config in configs.items():
        cors = config.cors or CorsConfig(origins=[])
        if not cors.origins and not with_loopback:
            continue
        schemes = auth_policies[agent_id].required_schemes.values() if agent_id in auth_policies else ()
        policies[agent_id] = CorsPolicy(
            cors.origins,
            [*cors.headers, *(header for scheme in schemes for header in scheme.request_headers)],
            cors.max_age,
            pattern=LOOPBACK_ORIGIN if with_loopback else "",
        )
    return policies
