"""A step as one line of text, for a terminal. Pure."""

from aion_core.log import one_line
from aion_core.trace.step import Kind, Step

WIDTH = 70
"""Longest line: with the time before it, the line fits into 80 columns."""

_SHORTEST = 12
"""Least room for the arguments or the result of a tool."""


def line_of(step: Step, *, content: bool = True, width: int = WIDTH) -> str:
    """Return the step's line of up to `width` characters, but for a long name. With `content`, it quotes a tool's values."""
    parts = [f"{step.kind} {one_line(step.name)}", *_numbers(step)]
    if step.error:
        parts.append(f"✗ {step.error}" if step.error != "_OTHER" else "✗")
    if step.where and not step.arguments:  # the line of the node around a tool has it too
        parts.append(f"at {one_line(step.where)}")
    line = " ".join(parts)
    if not content or not (step.arguments or step.result):
        return line
    left = width - len(line)
    arguments = _fitted(step.arguments, left // 2 if step.result else left)
    result = _fitted(step.result, left - len(arguments) - bool(arguments))
    return " ".join(filter(None, [line, arguments, f"→ {result}" if result else ""]))


def _numbers(step: Step) -> list[str]:
    if step.kind in (Kind.RETRY, Kind.HANDOFF, Kind.WAIT, Kind.TAKEOVER):
        return []
    numbers = [duration_text(step.ms) if step.ms is not None else "…"]
    if step.first_ms is not None:
        numbers.append(f"(first chunk {duration_text(step.first_ms)})")
    if step.input_tokens is not None or step.output_tokens is not None:
        numbers.append(f"{step.input_tokens or 0} → {step.output_tokens or 0} tokens")
    return numbers


def _fitted(text: str, room: int) -> str:
    """Return the text on one line, cut to this room with the space and the sign before it; "" if there is too little."""
    room -= 3
    if not text or room < _SHORTEST:
        return ""
    flat = one_line(" ".join(text[: 4 * room].split()))
    return flat if len(flat) <= room else f"{flat[: room - 1]}…"


def duration_text(milliseconds: float) -> str:
    """Return a duration for people, in milliseconds, seconds or minutes."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 120_000 else f"{milliseconds / 60_000:.0f} min"
