"""Checks of an agent's replies: one blocking message, and one with a streamed reply."""

from collections.abc import AsyncIterator

import click

from aion_core.log import one_line
from aion_tools.cli.chat.endpoint import Endpoint
from aion_tools.cli.chat.timed_reply import UNBUFFER, TimedReply, timed_reply
from aion_tools.cli.checks import CheckResult, failed, ok

SHOWN = 60
"""Number of an answer's characters that a result shows."""
NEXT = "`aion why TASK` explains a failed task; the log of the API function explains a refused message."


async def check_messages(endpoint: Endpoint, text: str) -> AsyncIterator[CheckResult]:
    """Send the text twice, for a blocking and for a streamed reply, and yield the result of each.

    If the first is refused, the second is not sent.
    """
    for name, streams in (("blocking message", False), ("streamed message", True)):
        try:
            reply = await timed_reply(endpoint, text, streams=streams)
        except click.ClickException as error:
            yield failed(name, one_line(error.message), NEXT)
            return
        yield _result(name, reply, streams=streams)


def _result(name: str, reply: TimedReply, *, streams: bool) -> CheckResult:
    if streams and not reply.is_streamed:
        return ok(name, "Answered without a stream, because the card declares no streaming.")
    answer = reply.answer
    words = " ".join(answer.shown.split())
    text = one_line(f"{words[:SHOWN]}…" if len(words) > SHOWN else words) or "no text"
    if not streams:
        return ok(name, f"The task is {answer.state} after {reply.end:.1f} s: {text}")
    if reply.is_buffered:
        return failed(
            name,
            f"All {reply.events} events arrived together after {reply.end:.1f} s, although the turn took longer.",
            UNBUFFER,
        )
    times = f"first words after {reply.first:.1f} s, the end after {reply.end:.1f} s"
    return ok(name, f"The task is {answer.state}, {reply.events} events, {times}: {text}")
