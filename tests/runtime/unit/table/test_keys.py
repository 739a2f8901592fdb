"""Keys of the table: those of two owners, of a tenant or of none, never meet."""

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from aion_core.auth.tenants import owner_in
from aion_core.table import keys
from aion_core.table.item import Key
from aion_core.table.keys import ContextKey, TaskKey, TimerOf
from tests.support.rows import each_row

OWNERS = [
    *("principal:ab", "principal:AB", *(owner_in("principal:ab", tenant) for tenant in ("red", "RED", "blue"))),
    *(owner_in("principal:cd", "red"), "anonymous", "https://login.example.com/|alice"),
    *("a", "a#b", "a%23b", "a/b", "a b", "#", "%", "ä"),
]
"""Owners with and without a tenant, and other names with the characters that separate a key's parts."""

SHARED = {"timer_shard", "push_timer_shard"}
"""Functions that make partitions with items of several owners."""

VALUES: dict[Any, Any] = {str: "x", int: 1, tuple[str, ...]: ("x",), TimerOf: TimerOf.LEASE}


def making() -> dict[str, Callable[[str], str | Key]]:
    """Return the module's functions that make a key from an owner, by name. Their other arguments are the same."""
    made: dict[str, Callable[[str], str | Key]] = {}
    for name, function in vars(keys).items():
        if not inspect.isfunction(function) or function.__module__ != keys.__name__ or name.startswith("_"):
            continue
        hints = get_type_hints(function)
        del hints["return"]

        def make(owner: str, function: Any = function, hints: dict[str, Any] = hints) -> str | Key:
            owned_by = {TaskKey: TaskKey(owner, "t"), ContextKey: ContextKey(owner, "a", "c")}
            named = dict.fromkeys(("owner", "caller", "user_id"), owner)
            result: str | Key = function(
                **{each: named.get(each) or (VALUES | owned_by)[kind] for each, kind in hints.items()}
            )
            return result

        if hints.keys() & {"owner", "caller", "user_id"} or {TaskKey, ContextKey} & set(hints.values()):
            made[name] = make
    return made


MADE = making()


def test_functions_with_owner_are_found() -> None:
    assert {
        "head_key",
        "message_key",
        "idempotency_key",
        "streams_key",
        "listing_agent",
        "session_thread",
    } < MADE.keys()


@each_row("name", sorted(MADE.keys() - SHARED))
def test_keys_of_two_owners_differ(name: str) -> None:
    assert len({str(MADE[name](owner)) for owner in OWNERS}) == len(OWNERS)


@each_row("owner", OWNERS)
def test_keys_are_parsed_into_their_owners(owner: str) -> None:
    task, context = TaskKey(owner, "t#1"), ContextKey(owner, "a", "c#1/ä")
    for key in (keys.head_key(task), keys.event_key(task, 7), keys.push_key(task, "p#1")):
        assert keys.task_of(key) == task
    for key in (keys.context_key(context), keys.message_key(context, "m#1")):
        assert keys.context_of(key) == context
