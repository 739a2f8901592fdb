"""Timing side channels: counted bytecode instructions."""

import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

Work = Callable[[], Coroutine[Any, Any, object]]
"""Function that returns a coroutine to measure, which never waits."""


def instructions(work: Work) -> int:
    """Return the number of bytecode instructions that the work executes; a call of a C function counts as one."""
    number, piece, before = 0, work(), sys.gettrace()

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal number
        frame.f_trace_opcodes = True
        number += event == "opcode"
        return count

    sys.settrace(count)
    try:
        _finish(piece)
    finally:
        sys.settrace(before)
    return number


def _finish(piece: Coroutine[Any, Any, object]) -> None:
    try:
        piece.send(None)
    except StopIteration:
        return
    raise AssertionError("the work waits for something")
