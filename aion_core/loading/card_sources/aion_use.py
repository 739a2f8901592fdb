"""Whether an agent's modules use what the Aion extensions carry: the event, the thread and the identity of a turn."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

_DEFINED_IN = ("aion_core.authoring.context", "aion_core.authoring.events")
"""Modules of the functions and classes that give the agent's code the context of a turn."""

_LIBRARIES = ("aion.langgraph", "aion.adk")


def uses_aion(module: ModuleType | None, folders: Iterable[Path]) -> bool:
    """Return True if the module, or a module in these folders that it imports from, has aion's context of a turn.

    Modules of installed packages are not looked at.
    """
    places = [folder.resolve() for folder in folders]
    waiting, seen = [module] if module is not None else [], set[str]()
    while waiting:
        current = waiting.pop()
        seen.add(current.__name__)
        values = list(vars(current).values())
        if any(_is_of_aion(value) for value in values):
            return True
        waiting += [each for each in _modules_of(values) if each.__name__ not in seen and _is_below(each, places)]
    return False


def _is_of_aion(value: object) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__ in _LIBRARIES
    return isinstance(getattr(value, "__name__", None), str) and getattr(value, "__module__", "") in _DEFINED_IN


def _modules_of(values: Iterable[object]) -> Iterator[ModuleType]:
    """Yield the modules among the values, and the modules that define the functions and classes among them."""
    for value in values:
        name = getattr(value, "__module__", None)
        found = value if isinstance(value, ModuleType) else sys.modules.get(name) if isinstance(name, str) else None
        if found is not None:
            yield found


def _is_below(module: ModuleType, places: Iterable[Path]) -> bool:
    file = getattr(module, "__file__", None)
    if not file:
        return False
    path = Path(file).resolve()
    is_installed = any(part in ("site-packages", "dist-packages") for part in path.parts)
    return not is_installed and any(path.is_relative_to(place) for place in places)
