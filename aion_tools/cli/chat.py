"""`aion chat` and `aion send`: a conversation with an agent in the terminal, and one message for scripts."""

import asyncio
import contextlib
import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aion_core.log import one_line
from aion_tools.cli import options
from aion_tools.cli.chat_content import Answer, choices_of, data_part, fields_of, file_part, name_interrupt
from aion_tools.cli.chat_session import CONTROLS, ChatSession, chat_session, endpoint_of, printable, refusal_text

if TYPE_CHECKING:
    from a2a.types import Part
    from rich.console import Console
    from rich.markdown import Markdown

EXIT_CODES = {"completed": 0, "input-required": 3, "auth-required": 3}
"""Exit codes of `aion send` by the state of the task. For every other state the code is 1."""

EPILOG = """\b
Credentials from the environment: TOKEN, API_KEY, or BASIC=name:password.
Otherwise requests to AWS are signed with your AWS credentials."""

HELP = """/file PATH   add a file to the next message
/save FOLDER save the files of the last answer
/cancel      cancel the task with the question
/new         begin a new conversation
/quit        leave (also Ctrl-D)
Ctrl-C cancels the running task."""


def _target(command: Any) -> Any:
    for option in (
        click.option(
            "--stack", envvar="AION_STACK", show_envvar=True, help="The deployment's stack, instead of a URL."
        ),
        options.agent,
        click.option("--context", "context_id", default="", help="Id of a conversation to continue."),
        click.option(
            "--sign", default="auto", show_default=True, help="auto, off, or the region of the AWS signature."
        ),
    ):
        command = option(command)
    return options.aws(command)


@click.command(short_help="Talk to an agent in the terminal.", epilog=EPILOG)
@click.argument("url", default="", callback=options.web_address)
@_target
def chat(url: str, stack: str | None, agent: str, context_id: str, sign: str) -> None:
    """Talk to the agent at URL, of --stack, or of the `aion dev` of this folder. Its answers stream as Markdown.

    /help lists the commands within the conversation.
    """
    endpoint = endpoint_of(url, stack, sign)

    async def run() -> None:
        async with chat_session(endpoint, agent, context_id=context_id) as opened:
            await _converse(opened, is_earlier=bool(context_id))

    asyncio.run(run())


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
@click.option("--task", "task_id", default="", help="Id of a task with a question; the message is the answer.")
@click.option("--interrupt", "interrupt_id", default="", help="Id of the answered question, if several wait.")
@click.option("--save", type=click.Path(path_type=Path, file_okay=False), help="Folder for the answer's files.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON object, after its end.")
@_target
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
    """Send TEXT, or the standard input for "-", and print the answer as it is streamed.

    The exit code is 0 for a completed task, 3 for a task that waits for an answer, 1 for a failed task, 2 for a wrong
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
            return await _answered(opened, opened.say(parts), _no_output if as_json else PlainPrinter())

    answer = asyncio.run(run())
    if as_json:
        click.echo(CONTROLS.sub(_json_escape, json.dumps(document(answer), ensure_ascii=False)))
    else:
        for part in answer.parts:
            if save is None or part.WhichOneof("content") not in ("raw", "text"):
                click.echo(described(part, hint="--save FOLDER"), err=True)
        if answer.state != "completed":
            click.echo(one_line(f"The task {answer.task_id} is {answer.state}."), err=True)
        for each in answer.interrupts if len(answer.interrupts) > 1 else ():
            click.echo(one_line(f"Answer with --interrupt {each['id']}: {each.get('text', '')}"), err=True)
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
        "interrupts": answer.interrupts,
        "parts": [to_json(part) for part in answer.parts],
    }


def saved_files(answer: Answer, folder: Path) -> list[Path]:
    """Write the files of the answer into the folder, and return their paths. No existing file is overwritten.

    Files without content (URLs only) are left out. Raises click.ClickException if a file cannot be written.
    """
    try:
        return list(_saved_files(answer, folder))
    except OSError as error:
        raise click.ClickException(f"{error.filename} cannot be written: {error.strerror}.") from error


def _saved_files(answer: Answer, folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for part in answer.parts:
        if part.WhichOneof("content") not in ("raw", "text"):
            continue
        # Use only the last part of the agent's file name, so that no file is written outside of the folder. Replace
        # control characters, because the name is printed, and a file name cannot contain NUL.
        filename = "".join(each if each.isprintable() else "_" for each in part.filename)
        name = Path(Path(filename.replace("\\", "/")).name.strip(". ") or "file")
        # Shorten the name, because a file system limits it to 255 bytes, and a number may be added.
        stem, suffix = (
            text.encode()[:most].decode(errors="ignore") for text, most in ((name.stem, 200), (name.suffix, 40))
        )
        path, number = folder / f"{stem}{suffix}", 1
        while path.exists():
            path, number = folder / f"{stem}-{number}{suffix}", number + 1
        path.write_bytes(part.raw or part.text.encode())
        yield path


def _json_escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def markdown_of(text: str) -> "Markdown":
    """Return an agent's text as Markdown for the terminal. HTML in the text is not interpreted."""
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown

    shown = Markdown("")
    parser = MarkdownIt().enable(["strikethrough", "table"]).disable(["html_block", "html_inline"])
    shown.markup, shown.parsed = text, parser.parse(printable(text))
    return shown


class PlainPrinter:
    """Printer of an answer while it is received. A text that does not continue the printed text is printed below it."""

    def __init__(self) -> None:
        self._printed = ""

    def __call__(self, answer: Answer) -> None:
        """Print the text that the answer has got since the last call."""
        shown = printable(answer.shown) if sys.stdout.isatty() else answer.shown
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


async def _answered(opened: ChatSession, answers: AsyncIterator[Answer], show: Callable[[Answer], None]) -> Answer:
    """Show the answer while it is received, and return it complete. Ctrl-C cancels the task.

    Raises click.ClickException for a refused message, and click.Abort for Ctrl-C before the task is known.
    """
    from a2a.utils.errors import A2AError

    answer = Answer()
    async with _canceling(opened, lambda: answer.task_id):
        try:
            async for answer in answers:
                show(answer)
        except A2AError as error:
            raise click.ClickException(refusal_text(error)) from error
    return answer


@contextlib.asynccontextmanager
async def _canceling(opened: ChatSession, task_id: Callable[[], str]) -> AsyncIterator[None]:
    """Within the block, let the first Ctrl-C cancel the running task, and the second Ctrl-C end the program.

    Raises click.Abort for Ctrl-C before the task is known.
    """
    loop, running = asyncio.get_running_loop(), set[asyncio.Task[None]]()
    waiting, is_aborted = asyncio.current_task(), False

    async def cancel() -> None:
        try:
            await opened.cancel(task_id())
        except Exception as error:
            click.echo(f"The task is not canceled: {error}", err=True)

    def interrupted() -> None:
        nonlocal is_aborted
        loop.remove_signal_handler(signal.SIGINT)
        if not task_id():
            is_aborted = True
            if waiting is not None:
                waiting.cancel()
            return
        click.echo("\nCanceling …", err=True)
        running.add(asyncio.ensure_future(cancel()))

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


# ── Chat ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _reader() -> Callable[[str, list[str]], Awaitable[str]]:
    """Return a function that reads a line after a prompt. Tab completes the given choices."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.shortcuts import CompleteStyle

    session: PromptSession[str] | None = None
    if sys.stdin.isatty():
        style = CompleteStyle.READLINE_LIKE
        session = PromptSession(history=InMemoryHistory(), complete_style=style, complete_while_typing=False)

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
    from rich.console import Console

    console, read = Console(highlight=False), _reader()
    about = opened.card.description.strip().rstrip(".") or "no description"
    # Print the card's texts literally, because rich would interpret square brackets in them as markup.
    console.print(one_line(f"{opened.card.name}: {about}. /help lists the commands."), markup=False)
    attached: list[Part] = []
    given: list[list[Part]] = []  # answers to the first of several questions; one message has the answers to all
    answer = await _resumed(opened, console) if is_earlier else Answer()
    while True:
        asked = answer if opened.task_id else Answer()
        try:
            line = (await read(*prompt_of(asked, len(given)))).strip()
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
                given.append(parts_of(line, attached, asked.interrupts[len(given) :]))
                attached = []
                if len(given) >= len(asked.interrupts):
                    said, given = [part for each in given for part in each], []
                    answer = await _shown(opened, opened.say(said), console)
        except (click.ClickException, A2AError) as error:
            text = error.format_message() if isinstance(error, click.ClickException) else refusal_text(error)
            console.print(text, style="red", markup=False)
        except click.Abort:
            console.print("Aborted before the agent had answered; its task may run.", style="yellow")
    text = f"Continue this conversation: aion chat … --context {opened.context_id}"
    # Keep the command on one line, so that users can copy it.
    console.print(text, style="dim", markup=False, soft_wrap=True)


def prompt_of(answer: Answer, place: int) -> tuple[str, list[str]]:
    """Return the prompt, and the choices of the question at this place."""
    if not answer.question:
        return "you> ", []
    number = f" {place + 1} of {len(answer.interrupts)}" if len(answer.interrupts) > 1 else ""
    return f"answer{number}> ", choices_of(answer, place)


def parts_of(line: str, attached: list["Part"], interrupts: Sequence[Mapping[str, Any]] = ()) -> list["Part"]:
    """Return the parts of a message that answers the first of the interrupts, if there are any.

    A line with a JSON object is data if the answer has fields.
    """
    from a2a.types import Part

    from aion_core.protocol.text import utf8

    parts = [*([Part(text=utf8(line))] if line else []), *attached]
    if interrupts and line.startswith("{") and fields_of(interrupts[0]):
        parts = [data_part(line), *attached]
    name_interrupt(parts, interrupts[0]["id"] if interrupts else "")
    return parts


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
    from rich.live import Live

    if not console.is_terminal:
        answer = await _answered(opened, answers, PlainPrinter())
    else:
        with Live(console=console, refresh_per_second=12, vertical_overflow="visible") as live:
            answer = await _answered(opened, answers, lambda each: live.update(markdown_of(each.shown)))
    for part in answer.parts:
        console.print(described(part), markup=False)
    for place, interrupt in enumerate(answer.interrupts or [{}]):
        if choices := choices_of(answer, place):
            console.print(one_line(f"Choices: {', '.join(choices)} (Tab completes them)"), markup=False)
        if fields := fields_of(interrupt):
            console.print(one_line(f"Answer with a JSON object of the fields: {', '.join(fields)}"), markup=False)
    if answer.state != "completed":
        console.print(f"The task is {answer.state}.", style="yellow")
    return answer


def described(part: "Part", hint: str = "/save FOLDER") -> str:
    """Return a line that describes a file part, or the JSON of a data part. `hint` is the command that saves a file."""
    from aion_core.protocol.message_json import to_json

    name = ", ".join(filter(None, (part.filename or "file", part.media_type)))
    match part.WhichOneof("content"):
        case "data":
            return printable(json.dumps(to_json(part)["data"], indent=2, ensure_ascii=False))
        case "url":
            return printable(f"[{name}: {part.url}]")
        case _:
            return printable(f"[{name}, {len(part.raw or part.text.encode())} bytes; {hint}]")
