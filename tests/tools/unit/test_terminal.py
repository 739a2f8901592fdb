"""Filter of the commands' output: foreign text is harmless, our own styles arrive."""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import click
import pytest

from aion_tools import terminal
from aion_tools.cli.chat.output import markdown_of

HOSTILE = "a\x1b]0;owned\x07b\x9b2Jc\u202ed\u2066e\u200ff\u2028g\rh\x7fi\ud800"
CLEAN = HOSTILE.translate(
    dict.fromkeys(map(ord, "\x1b\x07\x9b\u202e\u2066\u200f\u2028\r\x7f\ud800"), "\N{REPLACEMENT CHARACTER}")
)


class Terminal(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


@pytest.fixture(autouse=True)
def _colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


@contextmanager
def filtered() -> Iterator[Terminal]:
    """Within the block, write to the yielded terminal through the filter."""
    shown = Terminal()
    with redirect_stdout(shown), redirect_stderr(shown), terminal.cleaned_output():
        yield shown


def test_everything_written_is_cleaned() -> None:
    with filtered() as shown:
        click.echo(HOSTILE)
        print(HOSTILE, file=sys.stderr)
        sys.stdout.writelines([HOSTILE, "\n"])
        click.echo(b"\x1bc", nl=False)
    assert shown.text == f"{CLEAN}\n" * 3 + "\N{REPLACEMENT CHARACTER}c"


@pytest.mark.parametrize("text", ["a\tb\n", "Grüße", "שלום", "می‌خواهم", "👩‍👩‍👧 🏴󠁧󠁢󠁥󠁮󠁧󠁿"])
def test_harmless_text_stays(text: str) -> None:
    with filtered() as shown:
        click.echo(text, nl=False)
    assert shown.text == text


def test_style_of_line_survives_filter() -> None:
    with filtered() as shown:
        terminal.line(("ok", {"fg": "green"}), f" {HOSTILE} ", (HOSTILE, {"fg": None}))
    assert shown.text == f"\x1b[32mok\x1b[0m {CLEAN} {CLEAN}\n"


def test_rich_shows_foreign_text_literally() -> None:
    with filtered() as shown:
        console = terminal.console()
        console.print(f"[red]:skull: {HOSTILE[:20]}", style="bold")
        console.print(markdown_of("**bold** &#x202e; [link](http://a.example/&#27;]0;owned&#7;) \x1b[8m `\u2066`"))
    text = shown.text
    assert "[red]:skull: " in text
    assert "\x1b[1m" in text
    assert not {"\x07", "\x9b", "\u202e", "\u2066"} & set(text)
    assert "\x1b]0;" not in text
    assert "\x1b[8m" not in text


def test_json_text_loses_nothing() -> None:
    with filtered() as shown:
        click.echo(terminal.json_text({"a": HOSTILE, "b": "ü"}))
    assert "ü" in shown.text
    assert json.loads(shown.text) == {"a": HOSTILE, "b": "ü"}
