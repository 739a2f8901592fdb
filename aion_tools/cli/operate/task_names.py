"""Names by which people call what has an id: the id, its beginning or end, or `last` for the newest task. Pure."""

from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from typing import TypeVar

from aion_core.errors import ConfigurationError
from aion_core.table.keys import TaskKey

T = TypeVar("T")

LAST = "last"
FEWEST = 4
"""Smallest number of characters that stand for an id."""


async def found_by_name(
    name: str,
    scan: Callable[[Callable[[str], bool]], AsyncIterator[T]],
    task_of: Callable[[T], TaskKey],
    *,
    owner: str = "",
) -> list[T]:
    """Scan for what belongs to the named task of this owner, or of any owner: `scan` yields it for wanted ids.

    Raises ConfigurationError if the name may stand for several tasks.
    """
    found = [each async for each in scan(partial(may_name, name)) if owner in ("", task_of(each).owner)]
    task_ids = {task_of(each).task_id for each in found}
    # An id begins with its time.
    task_id = max(task_ids) if name == LAST and task_ids else named(name, task_ids)
    return [each for each in found if task_of(each).task_id == task_id]


def may_name(name: str, task_id: str) -> bool:
    """Return True if the name may stand for the task with this id."""
    return name == LAST or is_named(name, task_id)


def is_named(name: str, named_id: str) -> bool:
    """Return True if the name is this id, its beginning or its end. Lists on a terminal print the end."""
    is_part = len(name) >= FEWEST and (named_id.startswith(name) or named_id.endswith(name))
    return is_part or name == named_id


def named(name: str, ids: Collection[str], what: str = "tasks") -> str:
    """Return the one of the ids that the name stands for; the name itself if it stands for none of them.

    Raises ConfigurationError, which says `what` the ids are of, if it may stand for several.
    """
    chosen = [each for each in ids if is_named(name, each)]
    if not chosen or name in chosen:
        return name
    if len(chosen) > 1:
        listed = ", ".join(sorted(chosen, reverse=True)[:3])
        raise ConfigurationError(f"{len(chosen)} {what} have ids with {name!r}, such as {listed}. Give more of the id.")
    return chosen[0]
