"""Timing side channels: counted bytecode instructions, and the rank test of Mann and Whitney on interleaved samples."""

import random
import sys
import time
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


def distinguishability(one: Work, other: Work, *, samples: int = 1500) -> float:
    """Return the distinguishability of two inputs by time: 0 not at all, 1 always; by chance it stays below 0.1.

    It is twice the distance from a half of the probability that `other` takes longer than `one`. Ranks limit an
    interruption to one slow sample; interleaved samples share a slow machine; only this thread's CPU time counts.
    """
    order = [True, False] * samples
    random.Random(7).shuffle(order)
    for warm in (one, other) * 100:
        _seconds(warm)
    taken = sorted((_seconds(one if is_one else other), is_one) for is_one in order)
    ranks_of_other, place = 0.0, 0
    while place < len(taken):
        # Give each of several equal times the mean of their ranks.
        end = place
        while end < len(taken) and taken[end][0] == taken[place][0]:
            end += 1
        middle = (place + end - 1) / 2
        ranks_of_other += middle * sum(not is_one for _, is_one in taken[place:end])
        place = end
    longer = (ranks_of_other - samples * (samples - 1) / 2) / samples**2
    return abs(2 * longer - 1)


def _seconds(work: Work) -> int:
    piece = work()
    start = time.thread_time_ns()
    _finish(piece)
    return time.thread_time_ns() - start


def _finish(piece: Coroutine[Any, Any, object]) -> None:
    try:
        piece.send(None)
    except StopIteration:
        return
    raise AssertionError("the work waits for something")
