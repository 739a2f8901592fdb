"""Agent folders of ADK, as `adk web` serves them."""

import ast
from collections.abc import Sequence
from pathlib import Path

from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.discovery.agent_ids import agent_ids
from aion_core.loading.discovery.discovered import Discovered, env_files_in, plural_s, single_agent
from aion_core.loading.discovery.statements import assigned_values, imports_of, last_name, top_level
from aion_core.loading.importing.places import YAML_AGENT
from aion_core.loading.importing.syntax import parsed


def is_adk_folder(folder: Path) -> bool:
    """Return True if `adk web` would serve the folder.

    Such a folder has a root_agent.yaml, or its agent.py or __init__.py defines `root_agent` or `app`.
    """
    if (folder / YAML_AGENT).is_file():
        return True
    return any(adk_root(folder / name) for name in ("agent.py", "__init__.py"))


def adk_root(file: Path) -> str:
    """Return the name of the ADK object in a Python file: `app`, else `root_agent`, else ""."""
    tree = parsed(file)
    _, imported = imports_of(tree)
    assigned = dict(assigned_values(top_level(tree.body)))
    app = assigned.get("app")
    if isinstance(app, ast.Call) and last_name(app.func, imported) == "App":
        return "app"
    return "root_agent" if "root_agent" in assigned or "root_agent" in imported else ""


def discover_adk_folder(folder: Path) -> Discovered:
    """Return the agent of an ADK folder.

    The path of the agent is relative to the parent folder, because Python imports the folder as a package, as in `adk
    web`.
    """
    if (folder / "__init__.py").is_file() or not (folder / "agent.py").is_file():
        # Like ADK, read the `.env` in the agent's folder, or else the one in the parent folder.
        env_files = (env_files_in(folder) or env_files_in(folder.parent))[:1]
        return single_agent(folder.name, folder.name, folder.parent, f"ADK agent folder {folder.name}", env_files)
    return single_agent(
        f"agent.py:{adk_root(folder / 'agent.py')}", folder.name, folder, f"ADK agent folder {folder.name}"
    )


def discover_adk_folders(folder: Path, inner: Sequence[Path], misnamed: Sequence[Path] = ()) -> Discovered:
    """Return the agents of several ADK folders in one folder. A notice names the folders that are `misnamed` for packages."""
    agents = {
        agent_id: AgentConfig(path=place.name)
        for agent_id, place in zip(agent_ids([place.name for place in inner]), inner, strict=True)
    }
    return Discovered(
        agents,
        folder,
        f"ADK agent folder{plural_s(agents)}: {', '.join(agents)}.",
        notices=tuple(
            f"Not served: {place.name}. Rename it to use it: a package's name has letters, digits and underscores only."
            for place in misnamed
        ),
        env_files=env_files_in(folder, *inner),
    )
