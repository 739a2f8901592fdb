"""`aion why` prints the story of one task in sentences, and its present state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from aion_core.bootstrap import push_wake_up_of, wake_up_of
from aion_core.engine.task.timestamps import time_of
from aion_core.errors import AionError, ConfigurationError, UnreadableWakeUp
from aion_core.log import one_line
from aion_core.table.times import milliseconds
from aion_tools import terminal
from aion_tools.cli import deployment_options, documents, options
from aion_tools.cli.deployment_options import PLACES, Deployment
from aion_tools.cli.documents import LIMIT, time_text
from aion_tools.cli.error_text import error_text
from aion_tools.cli.operate.dead_letters import VARIABLES, DeadLetterQueue, QueuedLetter, read_letters
from aion_tools.cli.operate.report import TaskReport, list_heads, task_report
from aion_tools.cli.operate.tasks import find_heads
from aion_tools.cli.owner_options import SCANS
from aion_tools.cli.owner_options import owner as named_owner
from aion_tools.cli.steps import result_of, waiting
from aion_tools.cli.story.event import StoryEvent
from aion_tools.cli.story.story import story_of
from aion_tools.cli.verdict import Verdict, delivery_text, verdict_of
from aion_tools.dev.console_address import console_address
from aion_tools.dev.data_folder import SQLITE

if TYPE_CHECKING:
    from aion_core.engine.records import Head
    from aion_core.trace.rows import StoredTrace
    from aion_tools.deploy.logs import LogLine
    from aion_tools.operator.bootstrap import Operator
    from aion_tools.operator.dead_letters import DeadLetter

EARLIER = timedelta(minutes=1)
"""Time before a task's first event from which log lines are read, because the clocks of functions differ."""

COLOURS = {"error": "red", "invocation": "red", "warning": "yellow", "takeover": "yellow", "step": "bright_black"}


@dataclass(frozen=True)
class TaskStory:
    """Story of one task, with its present state."""

    report: TaskReport
    events: list[StoryEvent]
    letters: list[QueuedLetter]
    unread: list[str]
    """Sentences about sources that could not be read."""
    verdict: Verdict
    console: str
    """URL of the task in the console of the running development server, or ""."""

    def document(self) -> dict[str, Any]:
        """Return the story as a JSON object."""
        return {
            **self.report.document(),
            "story": [each.document() for each in self.events],
            "deadLetters": [each.document() for each in self.letters],
            "notRead": self.unread,
            **({"console": self.console} if self.console else {}),
            "now": {"text": self.verdict.text, "commands": list(self.verdict.commands)},
        }

    def print(self) -> None:
        """Print the story, with one line for each event."""
        head = self.report.head
        click.echo(
            f"Task {head.key.task_id} of the agent {head.context.agent}, in the context "
            f"{one_line(head.context.context_id)}, of the owner {head.key.owner}. Times are UTC."
        )
        click.echo(f"{self.console}\n" if self.console else "")
        for each in self.events:
            at = f"{each.at:%Y-%m-%d %H:%M:%S}.{each.at.microsecond // 1000:03d}" if each.at else ""
            text = one_line(each.text)
            terminal.line(f"{at:23}  ", (text, {"fg": COLOURS.get(each.kind)}))
        for text in self._facts():
            click.echo(f"{'':23}  {one_line(text)}")
        for text in self.unread:
            terminal.line(f"{'not read':23}  ", (one_line(text), {"fg": "yellow"}))
        terminal.line("\n", ("Now:", {"bold": True}), f" {one_line(self.verdict.text)}")

    def _facts(self) -> list[str]:
        """Return sentences about the present state of the context's queue, the webhooks and the dead letters."""
        context, head = self.report.context, self.report.head
        record = context.record if context is not None and not context.record.expired else None
        facts = []
        waits = [
            place
            for place, turn in enumerate(record.waiting if record else (), start=1)
            if turn.task_id == head.key.task_id
        ]
        if record is not None and waits:
            facts.append(f"Its turn has place {waits[0]} of {len(record.waiting)} in the queue of its context.")
        if context is not None and record is not None and record.busy and context.due_at is not None:
            facts.append(f"The timer of its context is set to {time_text(context.due_at)}.")
        if self.report.undelivered:
            facts.append(f"Not yet posted to every webhook: {_numbered('event', self.report.undelivered)}.")
        facts += [f"{_capital(delivery_text(each))}." for each in self.report.deliveries]
        facts += self.report.call_facts()
        for each in self.letters:
            facts.append(
                f"A message of the {each.queue} queue, sent at {time_text(each.letter.sent_at)}, is a dead letter "
                f"({each.meaning.category}): {each.meaning.status}"
            )
        return facts


@click.command(
    short_help="Explain a task in sentences.",
    epilog="""\b
Examples:
  aion why
  aion why last
  aion why 0199f0a2-…
  aion why 0199f0a2-… --stack aion-prod
  aion why 0199f0a2-… --subject alice@example.com --stack aion-prod --json""",
)
@click.argument("task_id", required=False)
@named_owner
@click.option("--content", is_flag=True, help="Print the texts of people and agents too. The default with `aion dev`.")
@options.as_json
@deployment_options.deployment
def why(task_id: str | None, owner: str, deployment: Deployment, *, content: bool, as_json: bool) -> None:
    """Explain what happened to the task TASK_ID, by default the newest one in `aion dev`, and its state now.

    The story is derived from the task's events, lease, queue, webhooks, dead letters and log lines. It covers
    arrival, workers, tries, waits, interrupts, cancellations, deliveries and errors. Log lines are read from the
    stack, or from `aion dev`, which also stores the steps of each turn: nodes, model calls and tool calls.

    Without an owner, the command reads the whole table. With `aion dev` this costs nothing.
    """
    from aion_tools.operator.bootstrap import build_operator

    operator = build_operator(deployment.settings(*PLACES))
    if task_id is None:
        task_id = _newest(deployment, operator)
    if not owner and not deployment.is_of_development:
        click.echo(SCANS, err=True)
    heads = result_of(find_heads(operator, task_id, owner, scan=not owner), "Searching for the task")
    stories = [
        _StoryReader(deployment, operator, content=content or deployment.is_of_development).read(head) for head in heads
    ]
    if as_json:
        documents.print_whole([each.document() for each in stories], as_json=True)
        return
    for place, story in enumerate(stories):
        click.echo("\n" if place else "", nl=False)
        story.print()


def _newest(deployment: Deployment, operator: "Operator") -> str:
    """Return the id of the development server's newest task. Raises ConfigurationError if it has no tasks."""
    if not deployment.is_of_development:
        raise click.UsageError("Name the task: aion why TASK_ID. See `aion tasks list --scan`.")
    heads, _ = result_of(list_heads(operator, "", "", "", None, 1), "Searching for the newest task")
    if not heads:
        raise ConfigurationError("There is no task yet: send a message with `aion chat`.")
    return heads[0].key.task_id


@dataclass
class _StoryReader:
    """Reader of a task's story. If a source, such as a queue, cannot be read, the story names it and omits its part."""

    deployment: Deployment
    operator: "Operator"
    content: bool = field(kw_only=True)
    unread: list[str] = field(default_factory=list)

    def read(self, head: "Head") -> TaskStory:
        """Read a task's story from all sources. Raises StoreError if the table cannot be read."""
        report = result_of(task_report(self.operator, head, content=self.content), "Reading the table")
        self.unread += report.unread
        caller = self._caller(head.key.owner)
        letters = self._letters(head)
        began = next((at for each in report.events if (at := time_of(each.event)) is not None), head.timestamp)
        with waiting("Reading the log lines"):
            lines = self._lines(head, began)
        traces = self._traces(head)
        events = story_of(report.events, lines, traces, caller=caller, agent=head.context.agent, content=self.content)
        url, context = self.deployment.server_url, head.context
        console = console_address(url, context.agent, context.context_id, head.key.task_id) if url else ""
        return TaskStory(report, events, letters, self.unread, self._verdict(report, letters), console)

    def _verdict(self, report: TaskReport, letters: Sequence[QueuedLetter]) -> Verdict:
        local, deployment = self.deployment.is_of_development, self.deployment
        place = f" --stack {deployment.stack}" if deployment.stack else ""
        owner = "" if local else f" --owner {report.head.key.owner}"
        runs = not local or deployment.server_runs
        return verdict_of(report, letters, owner=owner, place=place, server_runs=runs)

    def _caller(self, owner: str) -> str:
        """Return a description of the task's client: the principal of the owner's API key, or else the owner id."""
        from aion_core.auth.principal import ANONYMOUS
        from aion_tools.operator.bootstrap import build_keys

        if owner == ANONYMOUS:
            return "An anonymous client"
        keys = self._or_unread(
            "The API keys",
            lambda: result_of(build_keys(self.deployment.settings(*PLACES)).all(), "Reading the API keys"),
        )
        for key in keys or ():
            if key.owner == owner:
                return f"The client {one_line(key.principal)} (API key{f', tenant {key.tenant}' if key.tenant else ''})"
        return f"The client {owner}"

    def _letters(self, head: "Head") -> list[QueuedLetter]:
        """Read the dead letters of the task's push notifications and of its context's turns."""
        environ, found = self.deployment.environ, list[QueuedLetter]()
        for queue in DeadLetterQueue:
            if not environ.get(VARIABLES[queue]) and not environ.get(SQLITE):
                self.unread.append(f"The dead letters of the {queue} queue: {VARIABLES[queue]} is not set.")
                continue
            source = f"The dead letters of the {queue} queue"
            letters = partial(read_letters, self.deployment, [queue], LIMIT, partial(_is_about, head))
            found += self._or_unread(source, lambda: result_of(letters(), "Reading the dead letters")) or []  # noqa: B023  # called at once
        return found

    def _lines(self, head: "Head", began: datetime) -> "Sequence[LogLine]":
        """Read the log lines of the task from the stack's log groups, or from the development server's log file."""
        task_id, context_id = head.key.task_id, head.context.context_id
        if (folder := self.deployment.data_folder) is not None:
            from aion_tools.dev.log_file import read

            return read(folder, task_id, context_id)
        if not self.deployment.stack:
            self.unread.append("The log lines: name the stack by --stack.")
            return ()
        from aion_tools.deploy.logs import read_task

        since = milliseconds(began - EARLIER)
        lines = self._or_unread(
            "The log lines", lambda: read_task(self.deployment.stack, task_id, context_id, since=since)
        )
        return lines or ()

    def _traces(self, head: "Head") -> "Sequence[StoredTrace]":
        """Read the steps of the task's turns. Only a development server stores them."""
        if not self.deployment.is_of_development:
            return ()
        steps = self._or_unread(
            "The steps of the turns", lambda: result_of(self.operator.traces.read(head.key), "Reading the steps")
        )
        return steps or ()

    def _or_unread(self, source: str, read: Callable[[], Any]) -> Any:
        """Return the result of `read`. If it raises an AionError, add source and reason to `unread` and return None."""
        try:
            return read()
        except AionError as error:
            self.unread.append(f"{source}: {error_text(error)}")
            return None


def _is_about(head: "Head", letter: "DeadLetter", queue: DeadLetterQueue) -> bool:
    try:
        if queue is DeadLetterQueue.PUSH:
            return push_wake_up_of(letter.body).task == head.key
        return wake_up_of(letter.body).context == head.context
    except UnreadableWakeUp:
        return False


def _numbered(noun: str, numbers: Sequence[int]) -> str:
    return f"{noun}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
