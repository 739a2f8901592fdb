"""Ids of discovered agents, from names of files and folders. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_LONGEST_ID = 64

GENERIC_NAMES = frozenset(
    {
        "",
        "__init__",
        "__main__",
        "agent",
        "agent_executor",
        "app",
        "executor",
        "graph",
        "handler",
        "main",
        "request_handler",
        "root_agent",
        "server",
        "src",
    }
)
"""Names of files and objects in many projects, which tell nothing about the agent."""


def id_of_file(file: Path, name: str = "") -> str:
    """Return an id for a file's agent: the first distinctive one of the names of the agent, the file and the folder."""
    return distinctive(name, file.stem, file.parent.name)


def distinctive(*names: str) -> str:
    """Return the first name that is not generic, such as "agent" or "main"; if all are, the last non-empty name."""
    found = next((name for name in names if name and name not in GENERIC_NAMES), "")
    return found or next(name for name in reversed(names) if name)


def agent_ids(names: Sequence[str] | Mapping[str, object]) -> list[str]:
    """Return an agent id for each name. The ids are unique and valid in a URL."""
    ids: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:_LONGEST_ID] or "agent"
        free = (each for each in _numbered(plain) if each not in ids)
        ids.append(next(free))
    return ids


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        end = f"-{number}"
        yield f"{name[: _LONGEST_ID - len(end)]}{end}"
        number += 1
