"""Generated reference pages: every public name, command and option is listed."""

import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache

import click

from aion_tools.cli.main import aion
from scripts.reference.pages import PAGES
from scripts.reference.python_api import MODULES


@cache
def page(name: str) -> str:
    """Return the generated page; it is cached, because reading the signatures takes seconds."""
    return PAGES[f"docs/reference/{name}.md"]()


def section(text: str, heading: str) -> str:
    """Return the text from a heading to the next one of its level or above."""
    level = heading.partition(" ")[0]
    after = text.partition(f"\n{heading}\n")[2]
    assert after, heading
    return re.split(rf"^#{{1,{len(level)}}} ", after, maxsplit=1, flags=re.MULTILINE)[0]


def test_reference_page_lists_all_public_names_of_module() -> None:
    for path in MODULES:
        module = importlib.import_module(path)
        listed = section(page("python"), f"## {path}")
        for name in getattr(module, "__all__", ["serve", "AgentClient", "AgentReply"]):
            assert f"### {name}\n" in listed or f"- `{name}`: as in" in listed, path


def test_reference_shows_signature_and_docstring() -> None:
    from aion.langgraph import Thread, emit_file

    shown = section(page("python"), "### Thread")
    assert "async reply(content: Content, *, metadata: Mapping[str, Any] | None = None) -> None" in shown
    assert str(inspect.getdoc(Thread.reply)) in shown
    assert "| `message` | `Message | None` |" in page("python")  # a bar within code is not escaped
    signature = section(page("python"), "### emit_file")
    for name, parameter in inspect.signature(emit_file).parameters.items():
        star = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert re.search(rf"\*,.*\b{name}: " if star else rf"\b{name}: ", signature, re.DOTALL)


def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name, inner in command.commands.items():
        yield from leaves(inner, f"{path} {name}")


def test_reference_page_lists_all_options_of_command() -> None:
    for path, command in leaves(aion, "aion"):
        listed = section(page("commands"), f"{'#' * len(path.split())} {path}")
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden and parameter.help:
                assert parameter.opts[-1] in listed, path
