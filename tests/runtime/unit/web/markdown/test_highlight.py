"""Colours of code, also of code for which Pygments' patterns take minutes."""

import pytest

from aion_core.web.markdown.highlight import Highlighter, Piece
from tests.support.rows import each_row

CODE = 'def greet(name="x"):  # comment\n    return 1\n'


def text_of(pieces: list[Piece]) -> str:
    return "".join(each if isinstance(each, str) else each[1] for each in pieces)


@pytest.mark.parametrize("alias", ["py", "Python3"])
def test_code_has_colours_and_name_of_its_language(alias: str) -> None:
    language, pieces = Highlighter(100).pieces(CODE, alias)
    assert language == "python"
    kinds = [each for each in pieces if isinstance(each, list)]
    assert kinds == [
        ["keyword", "def"], ["name", "greet"], ["string", '"x"'], ["comment", "# comment"], ["keyword", "return"], ["number", "1"],
    ]  # fmt: skip
    assert text_of(pieces) == CODE


def test_code_of_unknown_language_has_no_colours() -> None:
    assert Highlighter(100).pieces("a", "") == ("", ["a"])
    assert Highlighter(100).pieces("a", "nosuch") == ("nosuch", ["a"])


@each_row(
    "alias, code",
    [
        ("c", "a" + " " * 20_000 + "b"),
        ("csharp", "a\n" * 10_000),
        ("scala", '"' + "\\" * 10_000),
        ("js", '\\"' * 10_000),
    ],
)
def test_code_that_takes_minutes_loses_its_colours(alias: str, code: str) -> None:
    """The timer ends the search of a pattern; the next code of this text has no colours either."""
    highlighter = Highlighter(1000)
    assert text_of(highlighter.pieces(code, alias)[1]) == code
    assert highlighter.pieces(CODE, "py")[1] == [CODE]
    assert len(Highlighter(1000).pieces(CODE, "py")[1]) > 1


@each_row("alias", ["html+php", "console", "pycon", "html", "jsx", "diff", "yaml", "markdown", "jinja"])
def test_pieces_of_code_add_up_to_it(alias: str) -> None:
    code = '$ <?php echo "a" ?>\n>>> 1\n- {% x %}\n+ <b class="c">d</b>\n```py\n1\n```\n'
    assert text_of(Highlighter(1000).pieces(code, alias)[1]) == code
