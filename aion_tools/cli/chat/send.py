"""`aion send`: one message to an agent, for scripts."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from aion_core.log import one_line
from aion_tools.cli import options
from aion_tools.cli.chat.content import Answer, data_part, file_part, name_interrupt
from aion_tools.cli.chat.output import PlainPrinter, described, saved_files
from aion_tools.cli.chat.reception import answered
from aion_tools.cli.chat.session import chat_session
from aion_tools.cli.chat.target import EPILOG, endpoint_of, target
from aion_tools.terminal import json_text

EXIT_CODES = {"completed": 0, "input-required": 3, "auth-required": 3}
"""Exit codes of `aion send` by the state of the task. For every other state the code is 1."""


@click.command(short_help="Send one message to an agent, for scripts.", epilog=EPILOG)
@click.argument("text", default="")
@click.option(
    "--url",
    default="",
    callback=options.web_address,
    help="URL of the agent.  [default: the `aion dev` of this folder]",
)
@click.option("--file", "files", multiple=True, type=click.Path(path_type=Path), help="File to send; repeatable.")
@click.option("--data", default="", help="JSON to send as data, such as an answer with several fields.")
@click.option("--task", "task_id", default="", help="Id of a task with a question; your message is the answer.")
@click.option("--interrupt", "interrupt_id", default="", help="Id of the question you answer, if several are waiting.")
@click.option("--save", type=click.Path(path_type=Path, file_okay=False), help="Folder to save the answer's files in.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole answer as one JSON object.")
@target
def send(
    text: str,
    url: str,
    files: tuple[Path, ...],
    data: str,
    task_id: str,
    interrupt_id: str,
    save: Path | None,
    as_json: bool,
    stack: str | None,
    agent: str,
    context_id: str,
    sign: str,
) -> None:
    """Send TEXT (or standard input, for "-"), and print the answer as it streams in.

    The exit code is 0 for a completed task, 3 for a task that is waiting for an answer, 1 for a failed task, 2 for a wrong
    command.
    """
    from a2a.types import Part

    from aion_core.protocol.text import utf8

    text = utf8(sys.stdin.read() if text == "-" else text)
    parts = [*([Part(text=text)] if text else []), *([data_part(data)] if data else [])]
    parts += [file_part(path) for path in files]
    if not parts:
        raise click.UsageError("Give a TEXT, a --file or --data.")
    name_interrupt(parts, interrupt_id)
    endpoint = endpoint_of(url, stack, sign)

    async def run() -> Answer:
        async with chat_session(endpoint, agent, context_id=context_id, task_id=task_id) as opened:
            return await answered(opened, opened.say(parts), _no_output if as_json else PlainPrinter())

    answer = asyncio.run(run())
    if as_json:
        click.echo(json_text(document(answer)))
    else:
        for part in answer.parts:
            is_saved = save is not None and part.WhichOneof("content") in ("raw", "text")
            text = described(part, hint="--save FOLDER", is_question=answer.question)
            if text and not is_saved:
                click.echo(text, err=True)
        if answer.state != "completed":
            click.echo(one_line(f"The task {answer.task_id} is {answer.state}.{_how_to_answer(answer)}"), err=True)
        for each in answer.questions if len(answer.questions) > 1 else ():
            click.echo(one_line(f"Answer with --interrupt {each.id}: {each.text}"), err=True)
    if save is not None:
        for path in saved_files(answer, save):
            click.echo(f"Saved {path}.", err=True)
    sys.exit(EXIT_CODES.get(answer.state, 1))


def document(answer: Answer) -> dict[str, Any]:
    """Return the answer as a JSON object, for `aion send --json`."""
    from aion_core.protocol.message_json import to_json

    return {
        "state": answer.state,
        "text": answer.shown,
        "task": answer.task_id,
        "context": answer.context_id,
        "interrupts": [each.document() for each in answer.questions],
        "parts": [to_json(part) for part in answer.parts],
    }


def _how_to_answer(answer: Answer) -> str:
    if not answer.question:
        return ""
    form = "--data '{…}'" if any(each.fields() for each in answer.questions) else '"…"'
    return f" Answer with: aion send {form} --task {answer.task_id}"


def _no_output(answer: Answer) -> None:
    pass
