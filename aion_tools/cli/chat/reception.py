"""Reception of an answer to its end. Ctrl-C cancels the task."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable

import click

from aion_tools.cli.chat.content import Answer
from aion_tools.cli.chat.session import ChatSession, refusal_text


async def answered(
    opened: ChatSession,
    answers: AsyncIterator[Answer],
    show: Callable[[Answer], None],
    stop_showing: Callable[[], None] = lambda: None,
) -> Answer:
    """Show the answer while it is received, and return it complete. Ctrl-C cancels the task, and calls `stop_showing`.

    After Ctrl-C, nothing more of the answer is shown. Raises click.ClickException for a refused message, and click.Abort for Ctrl-C before the task is known.
    """
    from a2a.utils.errors import A2AError

    answer, is_canceled = Answer(), False

    def cancel() -> str:
        nonlocal is_canceled
        is_canceled = True
        stop_showing()
        return answer.task_id

    async with _canceling(opened, cancel):
        try:
            async for answer in answers:
                if not is_canceled:
                    show(answer)
        except A2AError as error:
            raise click.ClickException(refusal_text(error)) from error
    return answer


@contextlib.asynccontextmanager
async def _canceling(opened: ChatSession, canceled: Callable[[], str]) -> AsyncIterator[None]:
    """Within the block, let the first Ctrl-C cancel the running task, and the second Ctrl-C end the program.

    `canceled` is called at the first Ctrl-C and returns the task's id. Raises click.Abort for Ctrl-C before the task is known.
    """
    loop, running = asyncio.get_running_loop(), set[asyncio.Task[None]]()
    waiting, is_aborted = asyncio.current_task(), False

    async def cancel(task_id: str) -> None:
        try:
            await opened.cancel(task_id)
        except Exception as error:
            click.echo(f"The task is not canceled: {error}", err=True)

    def interrupted() -> None:
        nonlocal is_aborted
        loop.remove_signal_handler(signal.SIGINT)
        if not (task_id := canceled()):
            is_aborted = True
            if waiting is not None:
                waiting.cancel()
            return
        click.echo("\nCanceling …", err=True)
        running.add(asyncio.ensure_future(cancel(task_id)))

    can_handle = True
    try:
        loop.add_signal_handler(signal.SIGINT, interrupted)
    except NotImplementedError:  # asyncio has no signal handlers on Windows
        can_handle = False
    try:
        yield
    except asyncio.CancelledError:
        if is_aborted and waiting is not None and not waiting.uncancel():
            raise click.Abort from None
        raise
    finally:
        if can_handle:
            loop.remove_signal_handler(signal.SIGINT)
        for task in running:
            task.cancel()
