"""Functions of an author's code that run before Lambda may freeze the process."""

from collections.abc import Callable
from typing import TypeVar

Flush = Callable[[], object]
F = TypeVar("F", bound=Flush)

flushes: list[Flush] = []
"""The registered functions, in the order of their registration."""


def before_freeze(flush: F) -> F:
    """Register a function that sends what an exporter still holds, such as `langfuse.flush`. Return the function.

    On AWS, Lambda freezes the process as soon as an invocation has ended, and what is not sent by then arrives with the
    next invocation, or never. The function runs after each response and after each turn, in a thread of its own, at the
    same time as the other ones. All of them together have three seconds. An error of the function is logged. On your own
    machine nothing is frozen, and the function is not called. LangSmith needs no function.

    Register it when the module of the agent is imported, also as a decorator. Raises TypeError for anything that cannot
    be called without arguments.
    """
    if not callable(flush):
        raise TypeError(f"before_freeze takes a function, not {type(flush).__name__}.")
    flushes.append(flush)
    return flush
