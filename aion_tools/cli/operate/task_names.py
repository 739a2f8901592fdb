"""Names by which people call a task: its id, the beginning or the end of it, or `last` for the newest task. Pure."""

from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from typing import TypeVar

from aion_core.errors import ConfigurationError

T = TypeVar("T")

LAST = "last"
FEWEST = 4
"""Smallest number of characters that stand for an id."""


async def found_by_name(
    name: str, scan: Callable[[Callable[[str], bool]], AsyncIterator[T]], id_of: Callable[[T], str]
) -> list[T]:
    """Scan for what belongs to the named task: `scan` yields it for wanted ids. See `named`."""
    found = [each async for each in scan(partial(may_name, name))]
    task_id = named(name, {id_of(each) for each in found})
    return [each for each in found if id_of(each) == task_id]


def may_name(name: str, task_id: str) -> bool:
    """Return True if the name may stand for the task with this id."""
    is_part = len(name) >= FEWEST and (task_id.startswith(name) or task_id.endswith(name))
    return is_part or name in (LAST, task_id)


def named(name: str, task_ids: Collection[str]) -> str:
    """Return the one of the ids that the name stands for; the name itself if there are none.

    Raises ConfigurationError if it may stand for several.
    """
    if not task_ids or name in task_ids:
        return name
    if name == LAST:
        return max(task_ids)  # an id begins with its time
    if len(task_ids) > 1:
        listed = ", ".join(sorted(task_ids, reverse=True)[:3])
        raise ConfigurationError(
            f"{len(task_ids)} tasks have ids with {name!r}, such as {listed}. Give more of the id."
        )
    return next(iter(task_ids))
