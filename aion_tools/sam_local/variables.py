"""Environment variables that the functions get under `sam local`. SAM sets only variables that the template declares."""

import json
from collections.abc import Mapping
from pathlib import Path

from aion_core.loading.deployment import read_deployment_config
from aion_tools.dev.environment import local_environment
from aion_tools.sam_local.reach import Reach

OPEN = {
    # Nobody signs requests here, and SAM listens on this machine only.
    "AION_AUTH": "off",
    "AION_LOOPBACK_ORIGINS": "true",
    "AION_REVEAL_ERRORS": "true",
}
"""Variables for callers on this machine."""
EMULATOR = {"AION_STORE_CALLS": "4", "AION_STORE_TIMEOUT": "60"}
"""Variables for an emulated AWS, which serves one request at a time. A template for AWS does not declare them."""
AGENTS = "AION_LOCAL_ENVIRONMENT"
"""Name of the variable that carries the agents' own variables, as a JSON object of texts."""
_LOOPBACK = ("127.0.0.0/8", "::1/128")


def plain(config: Path) -> dict[str, str]:
    """Return the variables for `sam local` alone: tasks are in the function's memory, and there are no queues.

    `config` is the path of aion.yaml. Raises ConfigurationError for an unreadable .env.
    """
    return {"AION_STORE": "memory", **OPEN, AGENTS: agents_variables(config, {})[0]}


def in_stack(environment: Mapping[str, str], reach: Reach, base_url: str, agents: str) -> dict[str, str]:
    """Return the variables of a function in containers whose AWS is emulated on this machine.

    `environment` is the function's environment in the emulated stack, and `agents` the value of AGENTS.
    """
    return {
        **environment,
        **OPEN,
        **EMULATOR,
        AGENTS: agents,
        "AION_BASE_URL": base_url,
        # There is no API Gateway here that verifies AWS signatures.
        "AION_HTTP_ENTRYPOINTS": "",
        "AION_PUSH_HTTP": "true",
        "AION_PUSH_NETWORKS": ",".join([*_LOOPBACK, *reach.networks]),
    }


def agents_variables(config: Path, environ: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the value of AGENTS, and a warning for each secret without a value.

    It has only variables that aion.yaml names under `secrets` or `environment`: from `environ`, else from .env, else
    from aion.yaml. Raises ConfigurationError for an unreadable .env.
    """
    if not config.is_file():
        return "{}", []
    declared = read_deployment_config(config)
    names = [*declared.environment, *declared.secrets]
    given = {name: environ[name] for name in names if environ.get(name)}
    found, warnings = local_environment(config, given, declared)
    values = {**found, **given}
    return json.dumps({name: values[name] for name in names if name in values}), warnings
