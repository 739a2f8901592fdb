"""The pages for operators: each alarm has its section, each command is one, each link leads somewhere."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from aion_core.cli.main import aion

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
RUNBOOK = (DOCS / "runbook.md").read_text(encoding="utf-8")
TEMPLATES = "\n".join(
    path.read_text(encoding="utf-8") for path in [ROOT / "template.yaml", *(ROOT / "infra").glob("*.yaml")]
)
ALARMS = re.findall(r"^  (\w+):\n    Type: AWS::CloudWatch::(?:Composite)?Alarm$", TEMPLATES, re.MULTILINE)
OWN = ("deploy", "limits", "runbook", "cost")


def sections() -> dict[str, str]:
    parts = re.split(r"^#{1,2} (.+)$", RUNBOOK, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_each_alarm_has_a_section_that_says_what_it_means_what_to_do_and_when_it_is_over() -> None:
    assert ALARMS
    for alarm in ALARMS:
        said = sections()[alarm]
        for part in ("**What it means.**", "**What users see.**", "**First look.**", "1. ", "**It is over**"):
            assert part in said, (alarm, part)


def commands(page: Path) -> Iterator[str]:
    """Each `aion …` of the page, without what is a placeholder at its end."""
    text = page.read_text(encoding="utf-8")
    fenced = re.findall(r"^```(?:sh)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for line in "\n".join(fenced).replace("\\\n", " ").splitlines():
        for part in line.split(" | "):
            if found := re.match(r"\s*(?:\.venv/bin/)?(aion (?!\w*:).+)", part):
                yield found[1]
    inline = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`(aion [^`]+)`", inline)


COMMANDS = [(page.name, command) for page in PAGES for command in commands(page)]


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 40


@pytest.mark.parametrize(("page", "typed"), COMMANDS, ids=lambda value: value)
def test_each_command_is_one_and_knows_its_options(page: str, typed: str) -> None:
    command: click.Command = aion
    words = shlex.split(typed, comments=True)[1:]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        command = command.commands[words.pop(0)]
    if isinstance(command, click.Group) or not words:
        return
    context = click.Context(command)
    # Only words are looked at: what they name need not be there.
    _, rest, _ = command.make_parser(context).parse_args(args=words)
    assert not rest, f"{rest} is more than the command takes"


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", OWN)
def test_each_link_leads_somewhere(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        there = (DOCS / file if file else DOCS / f"{page}.md").read_text(encoding="utf-8")
        assert not anchor or anchor in anchors(there), target


def test_what_a_page_says_make_makes_it_makes() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in OWN:
        for target in re.findall(r"`make ([a-z-]+)", (DOCS / f"{page}.md").read_text(encoding="utf-8")):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), (page, target)
