"""Pages for operators: a section for each alarm, and existing commands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from aion_tools.cli.main import aion

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
RUNBOOK = (DOCS / "runbook.md").read_text(encoding="utf-8")
TEMPLATES = "\n".join(
    path.read_text(encoding="utf-8") for path in [ROOT / "template.yaml", *(ROOT / "infra").glob("*.yaml")]
)
ALARMS = re.findall(r"^  (\w+):\n    Type: AWS::CloudWatch::(?:Composite)?Alarm$", TEMPLATES, re.MULTILINE)


def sections() -> dict[str, str]:
    parts = re.split(r"^#{1,2} (?!Needs )(.+)$", RUNBOOK, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_each_alarm_has_complete_section_in_runbook() -> None:
    assert ALARMS
    for alarm in ALARMS:
        said = sections().get(alarm, "")
        for part in ("**What it means.**", "**What users see.**", "**First look.**", "1. ", "**The problem is over**"):
            assert part in said, f"The section {alarm} of docs/runbook.md has no {part!r}."


OF_AWS = (
    "Cannot perform more than one GSI creation or deletion in a single update",
    "Cannot read from backfilling global secondary index",
    "Concurrent executions",
)
"""Texts in the runbook of AWS itself."""


def test_messages_quoted_in_runbook_exist_in_code() -> None:
    source = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("aion_core", "aion_tools")
        for path in (ROOT / folder).rglob("*.py")
    )
    # Join the texts that the code splits into several strings.
    messages = re.sub(r'"\n\s*f?"', "", source)
    prose = re.sub(r"^```.*?^```|`[^`]+`", "", RUNBOOK, flags=re.MULTILINE | re.DOTALL)
    quoted = {" ".join(each.split()) for each in re.findall(r'"([^"]+)"', prose) if " " in each} - {*OF_AWS}
    assert len(quoted) > 8
    for part in (part.strip() for each in quoted for part in each.split("…")):
        assert part in messages, part


def commands(page: Path) -> Iterator[str]:
    """Yield each `aion …` command of the page, without trailing placeholders."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    fenced = [code for opening, code in blocks if opening in ("", "sh")]
    for line in "\n".join(fenced).replace("\\\n", " ").splitlines():
        for part in re.split(r" (?:\|\|?|>) ", line):
            if found := re.match(r"\s*(?:\.venv/bin/|uv run )?(aion (?!\w*:).+)", part):
                yield found[1]
    inline = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`(aion [^`]+)`", inline)


COMMANDS = [(page.name, command) for page in PAGES for command in commands(page)]


def problem(typed: str) -> str:
    """Return what is wrong with the command, or an empty text. Only parse it: its files and stacks need not exist."""
    command: click.Command = aion
    words = shlex.split(typed, comments=True)[1:]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return f"no command {words[0]}"
        command = command.commands[words.pop(0)]
    if isinstance(command, click.Group) or not words:
        return ""
    try:
        _, rest, _ = command.make_parser(click.Context(command)).parse_args(args=words)
    except click.UsageError as error:
        return error.format_message()
    return f"{rest} is more than the command takes" if rest else ""


def test_commands_and_options_in_operator_guides_exist() -> None:
    assert len(COMMANDS) > 40
    assert {(page, typed): said for page, typed in COMMANDS if (said := problem(typed))} == {}
