"""`aion chat` and `aion send`: a conversation with an agent in the terminal, and one message for scripts."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aion_core.cli import options
from aion_core.cli.chat_session import Answer, ChatSession, chat_session, endpoint_of, file_part
from aion_core.log import one_line

if TYPE_CHECKING:
    from a2a.types import Part
    from rich.console import Console

EXIT_CODES = {"completed": 0, "input-required": 3, "auth-required": 3}
"""Exit code of `aion send` by the state of the task; 1 for every other state."""

EPILOG = """\b
Credentials from the environment: TOKEN, API_KEY, or BASIC=name:password.
Otherwise requests to AWS are signed with your AWS credentials."""

HELP = """/file PATH   add a file to the next message
/save FOLDER save the files of the last answer
/new         begin a new conversation
/quit        leave (also Ctrl-D)
Ctrl-C cancels the running task."""


def _target(command: Any) -> Any:
    for option in (
        click.option(
            "--stack", envvar="AION_STACK", show_envvar=True, help="The deployment's stack, instead of a URL."
        ),
        click.option("--agent", default="", help="Id of an agent in aion.yaml.  [default: the agent at the root]"),
        click.option("--context", "context_id", default="", help="Id of a conversation to continue."),
        click.option(
            "--sign", default="auto", show_default=True, help="auto, off, or the region of the AWS signature."
        ),
    ):
        command = option(command)
    return options.aws(command)


@click.command(short_help="Talk to an agent in the terminal.", epilog=EPILOG)
@click.argument("url", default="")
@_target
def chat(url: str, stack: str | None, agent: str, context_id: str, sign: str) -> None:
    """Talk to the agent at URL, of --stack, or of the `aion dev` of this folder. Its answers stream as Markdown.

    /help lists the commands within the conversation.
    """
    endpoint = endpoint_of(url, stack, sign)

    async def run() -> None:
        async with chat_session(endpoint, agent, context_id=context_id) as opened:
            await _converse(opened)

    asyncio.run(run())


@click.command(short_help="Send one message to an agent, for scripts.", epilog=EPILOG)
@click.argument("text", default="")
@click.option("--url", default="", help="URL of the agent.  [default: the `aion dev` of this folder]")
@click.option("--file", "files", multiple=True, type=click.Path(path_type=Path), help="File to send; repeatable.")
@click.option("--task", "task_id", default="", help="Id of a task with a question; the message is the answer.")
@click.option("--save", type=click.Path(path_type=Path, file_okay=False), help="Folder for the answer's files.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON object, after its end.")
@_target
def send(
    text: str,
    url: str,
    files: tuple[Path, ...],
    task_id: str,
    save: Path | None,
    as_json: bool,
    stack: str | None,
    agent: str,
    context_id: str,
    sign: str,
) -> None:
    """Send TEXT, or the standard input for "-", and print the answer as it is streamed.

    The exit code is 0 for a completed task, 3 if the task waits for an answer, 1 for a failed one, 2 for a wrong command.
    """
    from a2a.types import Part

    text = sys.stdin.read() if text == "-" else text
    parts = [*([Part(text=text)] if text else []), *(file_part(path) for path in files)]
    if not parts:
        raise click.UsageError("Give a TEXT or a --file.")
    endpoint = endpoint_of(url, stack, sign)

    async def run() -> Answer:
        async with chat_session(endpoint, agent, context_id=context_id, task_id=task_id) as opened:
            return await _answered(opened, parts, _no_output if as_json else PlainPrinter())

    answer = asyncio.run(run())
    if as_json:
        click.echo(json.dumps(document(answer), ensure_ascii=False))
    elif answer.state != "completed":
        click.echo(f"The task {answer.task_id} is {answer.state}.", err=True)
    if save is not None:
        for path in saved_files(answer, save):
            click.echo(f"Saved {path}.", err=True)
    sys.exit(EXIT_CODES.get(answer.state, 1))


def document(answer: Answer) -> dict[str, Any]:
    """Return the answer as JSON values."""
    from google.protobuf.json_format import MessageToDict

    return {
        "state": answer.state,
        "text": answer.shown,
        "task": answer.task_id,
        "context": answer.context_id,
        "parts": [MessageToDict(part) for part in answer.parts.values()],
    }


def saved_files(answer: Answer, folder: Path) -> list[Path]:
    """Write the answer's files with content into the folder, and return their paths. An existing file stays."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for part in answer.parts.values():
        if part.WhichOneof("content") != "raw":
            continue
        # Only the last part of an agent's file name, so that no file is written outside of the folder.
        name = Path(part.filename.replace("\\", "/")).name.strip(". ") or "file"
        path, number = folder / name, 1
        while path.exists():
            path, number = folder / f"{Path(name).stem}-{number}{Path(name).suffix}", number + 1
        path.write_bytes(part.raw)
        written.append(path)
    return written


class PlainPrinter:
    """Prints the text of an answer as it grows; a changed text begins on a new line."""

    def __init__(self) -> None:
        self._printed = ""

    def __call__(self, answer: Answer) -> None:
        """Print what is new in the answer."""
        shown = answer.shown
        if shown.startswith(self._printed):
            click.echo(shown[len(self._printed) :], nl=False)
        elif shown.strip() != self._printed.strip():
            click.echo(f"\n{shown}", nl=False)
        self._printed = shown or self._printed
        if answer.is_over and self._printed:
            click.echo()
            self._printed = ""


def _no_output(answer: Answer) -> None:
    pass


async def _answered(opened: ChatSession, parts: list["Part"], show: Callable[[Answer], None]) -> Answer:
    """Send the message, show the growing answer, and return it. Ctrl-C cancels the task.

    Raises click.ClickException for a refused message.
    """
    from a2a.utils.errors import A2AError

    answer = Answer()
    async with _canceling(opened, lambda: answer.task_id):
        try:
            async for answer in opened.say(parts):
                show(answer)
        except A2AError as error:
            raise click.ClickException(f"The message is refused: {error}") from error
    return answer


@contextlib.asynccontextmanager
async def _canceling(opened: ChatSession, task_id: Callable[[], str]) -> AsyncIterator[None]:
    """Let the first Ctrl-C cancel the running task, and the second one end the program."""
    loop, running = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    async def cancel() -> None:
        try:
            await opened.cancel(task_id())
        except Exception as error:
            click.echo(f"The task is not canceled: {error}", err=True)

    def interrupted() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        if not task_id():
            raise KeyboardInterrupt
        click.echo("\nCanceling …", err=True)
        running.add(asyncio.ensure_future(cancel()))

    can_handle = True
    try:
        loop.add_signal_handler(signal.SIGINT, interrupted)
    except NotImplementedError:  # on Windows
        can_handle = False
    try:
        yield
    finally:
        if can_handle:
            loop.remove_signal_handler(signal.SIGINT)
        for task in running:
            task.cancel()


# ── Chat ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _converse(opened: ChatSession) -> None:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import InMemoryHistory
    from rich.console import Console

    console, session = Console(highlight=False), PromptSession[str](history=InMemoryHistory())
    about = opened.card.description.strip().rstrip(".") or "no description"
    # A card's texts are not markup of this program.
    console.print(f"{opened.card.name}: {one_line(about)}. /help lists the commands.", markup=False)
    attached: list[Part] = []
    answer = Answer()
    while True:
        try:
            line = (await session.prompt_async("answer> " if opened.task_id else "you> ")).strip()
        except EOFError:
            return
        except KeyboardInterrupt:
            continue
        command, _, argument = line.partition(" ")
        try:
            if command == "/quit":
                return
            if command == "/new":
                opened.begin_anew()
                console.print("A new conversation.")
            elif command == "/file":
                attached.append(file_part(Path(argument.strip())))
                console.print(f"{argument.strip()} goes with the next message.")
            elif command == "/save":
                for path in saved_files(answer, Path(argument.strip() or ".")):
                    console.print(f"Saved {path}.")
            elif command.startswith("/"):
                console.print(HELP)
            elif line or attached:
                answer = await _shown(opened, line, attached, console)
                attached = []
        except click.ClickException as error:
            console.print(error.format_message(), style="red", markup=False)


async def _shown(opened: ChatSession, line: str, attached: list["Part"], console: "Console") -> Answer:
    """Send the line and the files, and show the answer as Markdown while it grows."""
    from a2a.types import Part
    from rich.live import Live
    from rich.markdown import Markdown

    parts = [*([Part(text=line)] if line else []), *attached]
    if not console.is_terminal:
        answer = await _answered(opened, parts, PlainPrinter())
    else:
        with Live(console=console, refresh_per_second=12, vertical_overflow="visible") as live:
            answer = await _answered(opened, parts, lambda each: live.update(Markdown(each.shown)))
    for part in answer.parts.values():
        console.print(described(part), markup=False)
    if answer.state != "completed":
        console.print(f"The task is {answer.state}.", style="yellow")
    return answer


def described(part: "Part") -> str:
    """Return a line about a file, or the JSON of data."""
    from google.protobuf.json_format import MessageToDict

    match part.WhichOneof("content"):
        case "data":
            return json.dumps(MessageToDict(part)["data"], indent=2, ensure_ascii=False)
        case "url":
            return f"[{part.filename or 'file'}, {part.media_type}: {part.url}]"
        case _:
            return f"[{part.filename or 'file'}, {part.media_type}, {len(part.raw)} bytes; /save FOLDER]"
