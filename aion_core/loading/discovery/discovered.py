"""Discovered agents: their configurations, and the settings needed to serve them."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from aion_core.engine.limits.limits import Limits
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.discovery.agent_ids import agent_ids


class Discovered(Struct, frozen=True):
    """Agents discovered in a folder or a file, with the settings needed to serve them."""

    agents: Mapping[str, AgentConfig]
    """Agents' configurations by agent id. The ids are valid in a URL."""
    folder: Path
    """Base folder of the agents' paths."""
    found: str
    """Message for the user: the discovered agents, and the settings that have no effect."""
    notices: tuple[str, ...] = ()
    """Further lines for the user, about settings whose effect the user may expect."""
    roots: tuple[Path, ...] = ()
    """Further folders for imports, beside the folder and its `src`."""
    env_files: tuple[Path, ...] = ()
    """Existing `.env` files, in order of precedence."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables declared in langgraph.json itself."""
    requirements: tuple[str, ...] = ()
    """Pip requirements under `dependencies` in langgraph.json."""
    limits: Limits | None = None
    config: Path | None = None
    """Path of the project's aion.yaml; None without such a file."""


def single_agent(
    path: str, name: str, folder: Path, found: str, env_files: tuple[Path, ...] | None = None
) -> Discovered:
    """Return the only agent of a folder or file. `name` becomes its id, `found` the message for the user."""
    [agent_id] = agent_ids([name])
    files = env_files_in(folder) if env_files is None else env_files
    return Discovered({agent_id: AgentConfig(path=path)}, folder, f"{found}.", env_files=files)


def env_files_in(*folders: Path) -> tuple[Path, ...]:
    """Return the paths of the `.env` files that exist in these folders."""
    files = dict.fromkeys(folder / ".env" for folder in folders)
    return tuple(file for file in files if file.is_file())


def plural_s(several: Mapping[str, object]) -> str:
    """Return the ending of a noun for these things: "s" for several."""
    return "s" if len(several) > 1 else ""
