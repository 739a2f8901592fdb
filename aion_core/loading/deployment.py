"""Reading of a deployment's configuration, from an aion.yaml or by discovery in a project."""

from pathlib import Path

from msgspec.structs import replace

from aion_core.loading.aion_yaml.reading import DeploymentConfig, read_config_file
from aion_core.loading.answer_form import answer_form


def read_deployment_config(path: Path) -> DeploymentConfig:
    """Read an aion.yaml, or discover the agents of a folder, a langgraph.json or a Python file.

    Each agent has the form of its answer, also where aion.yaml leaves it open. Raises ConfigurationError with the file,
    the invalid key and the remedy.
    """
    declared = _read(path)
    agents = {
        agent_id: config.model_copy(update={"answer": answer_form(config, declared.folder, declared.roots)})
        for agent_id, config in declared.agents.items()
    }
    return replace(declared, agents=agents)


def _read(path: Path) -> DeploymentConfig:
    if not (path.is_dir() or path.suffix in (".json", ".py") or ":" in path.name):
        return read_config_file(path)
    # Import late, because a deployed function has an aion.yaml and needs no discovery.
    from aion_core.loading.discovery.discover import discover

    found = discover(path)
    if found.config is not None:
        return read_config_file(found.config)
    return DeploymentConfig(found.agents, found.limits, found.folder, found.roots, found.env)
