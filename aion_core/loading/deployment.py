"""Reading of a deployment's configuration, from an aion.yaml or by discovery in a project."""

from pathlib import Path

from aion_core.loading.aion_yaml.reading import DeploymentConfig, read_config_file


def read_deployment_config(path: Path) -> DeploymentConfig:
    """Read an aion.yaml, or discover the agents of a folder, a langgraph.json or a Python file.

    Raises ConfigurationError with the file, the invalid key and the remedy.
    """
    if not (path.is_dir() or path.suffix in (".json", ".py") or ":" in path.name):
        return read_config_file(path)
    # Import late, because a deployed function has an aion.yaml and needs no discovery.
    from aion_core.loading.discovery.discover import discover

    found = discover(path)
    if found.config is not None:
        return read_config_file(found.config)
    return DeploymentConfig(found.agents, found.limits, found.folder, found.roots, found.env)
