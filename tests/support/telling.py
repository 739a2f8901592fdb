"""What a run tells at its end, also where its tests ran in several processes."""

from collections.abc import Callable
from typing import Any

TELLERS: dict[str, Callable[[], Any]] = {}
"""What a process has to tell, by a name; plain values, since they cross from one process to another."""

_heard: list[dict[str, Any]] = []


def tell() -> dict[str, Any]:
    """What this process has to tell."""
    return {name: teller() for name, teller in TELLERS.items()}


def hear(told: dict[str, Any]) -> None:
    """Take what another process tells."""
    _heard.append(told)


def all_told(name: str) -> list[Any]:
    """What this process and the others have told under the name."""
    own = [TELLERS[name]()] if name in TELLERS else []
    return [*own, *(told[name] for told in _heard if name in told)]
