"""`aion chat`: a conversation with an agent in the terminal."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aion_core.log import one_line
from aion_tools import terminal
from aion_tools.cli import options
from aion_tools.cli.chat.content import Answer, data_part, file_part, name_interrupt
from aion_tools.cli.chat.forms import check_answer, fields_of, object_of
from aion_tools.cli.chat.live_answer import LiveAnswer
from aion_tools.cli.chat.output import PlainPrinter, described, saved_files
from aion_tools.cli.chat.reception import answered
from aion_tools.cli.chat.session import ChatSession, chat_session, refusal_text
from aion_tools.cli.chat.target import EPILOG, endpoint_of, target
from aion_tools.cli.chat.tool_calls import line_of_call

if TYPE_CHECKING:
    from a2a.types import Part
    from rich.console import Console

    from aion_core.protocol.interrupts import OpenQuestion
    from aion_core.trace.step import Step


Reader = Callable[[str, list[str]], Awaitable[str]]
"""Function that reads a line after a prompt. Tab completes the given choices."""

LEFT_OUT = object()
"""Value of an optional field that has no answer."""

HELP = """/file PATH   add a file to the next message
/save FOLDER save the files of the last answer
/cancel      cancel the task that asked a question
/new         begin a new conversation
/quit        leave (also Ctrl-D)
Ctrl-C cancels the running task."""


@click.command(short_help="Talk to an agent in the terminal.", epilog=EPILOG)
@click.argument("url", default="", callback=options.web_address)
@target
def chat(url: str, stack: str | None, agent: str, context_id: str, sign: str) -> None:
    """Talk to an agent: the one at URL, in --stack, or in this folder's `aion dev`. Its answers stream as Markdown.

    Type /help in the conversation to see its commands.
    """
    endpoint = endpoint_of(url, stack, sign)

    async def run() -> None:
        async with chat_session(endpoint, agent, context_id=context_id) as opened:
            await _converse(opened, is_earlier=bool(context_id))

    asyncio.run(run())


def _reader() -> Reader:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.output import create_output
    from prompt_toolkit.shortcuts import CompleteStyle

    session: PromptSession[str] | None = None
    if sys.stdin.isatty():
        style = CompleteStyle.READLINE_LIKE
        session = PromptSession(
            history=InMemoryHistory(),
            complete_style=style,
            complete_while_typing=False,
            # Beneath the filter: the prompts are ours, and the choices are clean.
            output=create_output(stdout=terminal.beneath(sys.stdout)),
        )

    async def read(prompt: str, choices: list[str]) -> str:
        if session is not None:
            session.completer = WordCompleter(choices) if choices else None
            line: str = await session.prompt_async(prompt)
        elif not (line := await asyncio.to_thread(sys.stdin.readline)):
            raise EOFError
        return line

    return read


async def _converse(opened: ChatSession, *, is_earlier: bool) -> None:
    """Read lines from the terminal and answer them, until /quit or Ctrl-D.

    `is_earlier` is True for a continued conversation. Then first show its unfinished task, which runs or waits for
    input.
    """
    from a2a.utils.errors import A2AError

    console, read = terminal.console(), _reader()
    about = opened.card.description.strip().rstrip(".") or "no description"
    console.print(one_line(f"{opened.card.name}: {about}. /help lists the commands."))
    attached: list[Part] = []
    given: list[list[Part]] = []  # answers to the first of several questions; one message has the answers to all
    answer = await _resumed(opened, console) if is_earlier else Answer()
    while True:
        asked = answer if opened.task_id else Answer()
        try:
            line = await _line(read, asked, len(given), console)
        except EOFError:
            break
        except KeyboardInterrupt:
            continue
        command, _, argument = line.partition(" ")
        try:
            if command == "/quit":
                break
            if command == "/new":
                opened.begin_anew()
                given = []
                console.print("A new conversation.")
            elif command == "/cancel" and opened.task_id:
                await opened.cancel(opened.task_id)
                opened.task_id, given = "", []
                console.print("The task is canceled.")
            elif command == "/file":
                attached.append(file_part(Path(argument.strip())))
                console.print(f"{argument.strip()} goes with the next message.")
            elif command == "/save":
                for path in saved_files(answer, Path(argument.strip() or ".")):
                    console.print(f"Saved {path}.")
            elif command.startswith("/"):
                console.print(HELP)
            elif line or attached:
                given.append(parts_of(line, attached, asked.questions[len(given) :]))
                attached = []
                if len(given) >= len(asked.questions):
                    said, given = [part for each in given for part in each], []
                    answer = await _shown(opened, opened.say(said), console)
        except (click.ClickException, A2AError) as error:
            text = error.format_message() if isinstance(error, click.ClickException) else refusal_text(error)
            console.print(text, style="red")
        except click.Abort:
            console.print("Stopped before the agent had answered; its task may still be running.", style="yellow")
    text = f"Continue this conversation: aion chat … --context {opened.context_id}"
    # Keep the command on one line, so that users can copy it.
    console.print(text, style="dim", soft_wrap=True)


async def _line(read: Reader, asked: Answer, place: int, console: "Console") -> str:
    """Read the next message, or the answer to the question at this place: with fields, a line for each, returned as JSON.

    A command, or an answer as JSON, takes the place of the fields.
    """
    prompt, choices = prompt_of(asked, place)
    question = asked.questions[place] if place < len(asked.questions) else None
    fields = fields_of(question) if question else []
    values: dict[tuple[str, ...], Any] = {}
    while len(values) < len(fields):
        field = fields[len(values)]
        line = (await read(f"{prompt.removesuffix('> ')}: {field.prompt}", field.choices)).strip()
        if line.startswith("/") or (not values and line.startswith("{")):
            return line
        try:
            values[field.path] = LEFT_OUT if not line and not field.is_required else field.value_of(line)
        except click.ClickException as error:
            console.print(error.format_message(), style="red")
    if question is None or not fields:
        return (await read(prompt, choices)).strip()
    answer = object_of({path: value for path, value in values.items() if value is not LEFT_OUT})
    try:
        check_answer(question, answer)
    except click.ClickException as error:
        console.print(error.format_message(), style="red")
        return await _line(read, asked, place, console)
    return json.dumps(answer, ensure_ascii=False)


def prompt_of(answer: Answer, place: int) -> tuple[str, list[str]]:
    """Return the prompt, and the choices of the question at this place."""
    if not answer.question:
        return "you> ", []
    number = f" {place + 1} of {len(answer.questions)}" if len(answer.questions) > 1 else ""
    return f"answer{number}> ", choices_of(answer.questions[place]) if place < len(answer.questions) else []


def choices_of(question: "OpenQuestion") -> list[str]:
    """Return the choices of a question that a line can name."""
    return [terminal.clean(each) for each in question.choices if isinstance(each, str)]


def parts_of(line: str, attached: list["Part"], questions: Sequence["OpenQuestion"] = ()) -> list["Part"]:
    """Return the parts of a message that answers the first of the questions, if there are any.

    A line with a JSON object is data if the answer has fields.
    """
    from a2a.types import Part

    from aion_core.protocol.text import utf8

    parts = [*([Part(text=utf8(line))] if line else []), *attached]
    if questions and line.startswith("{") and questions[0].fields():
        parts = [data_part(line), *attached]
    name_interrupt(parts, questions[0].id if questions else "")
    return parts


def hints_of(question: "OpenQuestion") -> list[str]:
    """Return lines about the form of the answer: its choices, or that it has fields."""
    choices = choices_of(question)
    lines = [f"Choices: {', '.join(choices)} (Tab completes them)"] if choices else []
    return lines + (["Answer each field, or all as one JSON object."] if question.fields() else [])


async def _resumed(opened: ChatSession, console: "Console") -> Answer:
    """Show the conversation's unfinished task, which runs or waits for input, and return the agent's answer in it."""
    from a2a.utils.errors import A2AError

    try:
        task_id = await opened.open_task()
    except A2AError as error:
        raise click.ClickException(refusal_text(error)) from error
    return await _shown(opened, opened.resume(task_id), console) if task_id else Answer()


async def _shown(opened: ChatSession, answers: AsyncIterator[Answer], console: "Console") -> Answer:
    """Show the answer as Markdown while it is received, then its files and data."""
    if not console.is_terminal:
        answer = await answered(opened, answers, PlainPrinter())
    else:
        async with LiveAnswer(console) as live:

            def show(call: "Step") -> None:
                live.note(line_of_call(call, console.width))

            async with opened.calls.shown(lambda: live.task_id, show):
                answer = await answered(opened, answers, live, live.close)
        if answer.state != "canceled":
            await opened.calls.show_rest(answer.task_id, show)
            live.print_notes()
    for part in answer.parts:
        if text := described(part, is_question=answer.question):
            console.print(text)
    for question in answer.questions:
        for line in hints_of(question):
            console.print(one_line(line))
    if answer.state != "completed":
        console.print(f"The task is {answer.state}.", style="yellow")
    return answer
