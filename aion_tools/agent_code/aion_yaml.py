"""Text of an aion.yaml for the discovered agents of a project without one."""

import os
from typing import Any

import yaml

from aion_core.loading.discovery.discovered import Discovered


def as_yaml(discovered: Discovered) -> str:
    """Return the text of an aion.yaml that declares the discovered agents.

    It has no limits and no auth policy: a project without an aion.yaml cannot have any.
    """
    aion: dict[str, Any] = {}
    if discovered.roots:
        aion["python_path"] = [os.path.relpath(root, discovered.folder) for root in discovered.roots]
    if discovered.env:
        aion["environment"] = dict(discovered.env)
    aion["agents"] = {
        agent_id: agent.model_dump(mode="json", exclude_defaults=True) for agent_id, agent in discovered.agents.items()
    }
    return yaml.safe_dump({"aion": aion}, sort_keys=False, allow_unicode=True)
