"""Trees of Markdown texts: what becomes a node, what stays text, and what a text that is not complete settles."""

import os
import random
from typing import Any

import pytest

from aion_core.web.markdown.tree import Node, rendered
from tests.support.rows import each_row
from tests.support.server import ROOT

ATOMS = [
    "a",
    "1",
    "# ",
    "#",
    "- ",
    "* ",
    "> ",
    "```\n",
    "~~~",
    "\n",
    "\n\n",
    "  ",
    "    ",
    "\t",
    "| a |\n",
    "|-|\n",
    "|",
]
ATOMS += ["1. ", "2) ", "10", "=", "===\n", "---\n", "_", "**", "`", "[ ] ", "word ", "\\\n", "<b>"]
"""Pieces of Markdown: in any order, they are at the limits of its blocks."""
MANY = 20_000
"""Characters for which a quadratic parser takes minutes."""


def nodes(text: str) -> list[Node]:
    found: list[Node] = rendered(text)["nodes"]
    return found


def node(tag: str, *children: Node | list[str], **attributes: Any) -> dict[str, Any]:
    return {"tag": tag, **attributes, "children": list(children)}


def link(href: str, *children: Node) -> dict[str, Any]:
    return node("a", *(children or [href]), href=href)


def words(found: list[Node]) -> str:
    """Return the text of nodes."""
    return "".join(each if isinstance(each, str) else words(each["children"]) for each in found)


@each_row(
    "text, expected",
    [
        ("### T *a **b** c*", [node("h3", "T ", node("em", "a ", node("strong", "b"), " c"))]),
        ("_x_ ~~y~~ `z` \\*", [node("p", node("em", "x"), " ", node("s", "y"), " ", node("code", "z"), " *")]),
        ("---", [node("hr")]),
        ("a\nb\\\nc", [node("p", "a", node("br"), "b", node("br"), "c")]),
        ("<b>&amp;</b>", [node("p", "<b>&</b>")]),
        ("3. x\n4. y", [node("ol", node("li", "x"), node("li", "y"), start=3)]),
        ("- x\n\n- y", [node("ul", node("li", node("p", "x")), node("li", node("p", "y")))]),
        ("- [x] a\n- [ ] b", [node("ul", node("li", "a", checked=True), node("li", "b", checked=False))]),
        ("- [ ] a\n\n- [y] b", [node("ul", node("li", node("p", "a"), checked=False), node("li", node("p", "[y] b")))]),
        ("[x] a", [node("p", "[x] a")]),
        ("> a", [node("blockquote", node("p", "a"))]),
        ("see https://a.b/x_(y), (http://c.d).", [node("p", "see ", link("https://a.b/x_(y)"), ", (", link("http://c.d"), ").")]),
        ("[l](https://a.b/?x=https://c.d) <https://e.f>", [node("p", link("https://a.b/?x=https://c.d", "l"), " ", link("https://e.f"))]),
        ("[https://a.b](docs/x.md)", [node("p", link("docs/x.md", "https://a.b"))]),
        ("[l](javascript:x) ![i](vbscript:x)", [node("p", "[l](javascript:x) ![i](vbscript:x)")]),
        ("![a *b*](c.png)", [node("p", node("img", src="c.png", alt="a b"))]),
        ("```py x\nif y:\n```", [node("pre", ["keyword", "if"], " y:", language="python")]),
        ("```nosuch\n'a'\n```", [node("pre", "'a'", language="nosuch")]),
        ("    a\n\n    b", [node("pre", "a\n\nb", language="")]),
    ],
)  # fmt: skip
def test_markdown_has_nodes(text: str, expected: list[Node]) -> None:
    assert nodes(text) == expected


def test_table_has_alignment_of_its_columns() -> None:
    (table,) = nodes("| a | b | c |\n|:-:|--:|---|\n| 1 | `2` | x \\| y |")
    assert isinstance(table, dict)
    head, body = table["children"]
    assert head == node(
        "thead", node("tr", node("th", "a", align="center"), node("th", "b", align="right"), node("th", "c"))
    )
    cells = [node("td", "1", align="center"), node("td", node("code", "2"), align="right"), node("td", "x | y")]
    assert body == node("tbody", node("tr", *cells))


@each_row(
    "text, settled, lines",
    [
        ("a\n\nb", 1, 2),
        ("a\r\n\rb", 1, 2),
        ("a\n\n", 0, 0),
        ("a\n\nb\nc\n\n```\n\nd", 2, 5),
        ("1. a\n\n2", 0, 0),
        ("1. a\n\n2\n", 1, 2),
        ("a\n#", 0, 0),
        ("a\n# b\n", 0, 0),
        ("a\n# b\n\n", 1, 1),
        ("a\n|b|\n|-", 0, 0),
        ("a\n|b|\n|-|\n", 1, 1),
    ],
)
def test_text_settles_blocks_before_its_last(text: str, settled: int, lines: int) -> None:
    found = rendered(text)
    assert (found["settled"], found["lines"]) == (settled, lines)


def assert_settled_stays(text: str, ends: list[int]) -> None:
    """Assert that the beginnings of a text up to these places settle blocks of the whole text, and the rest the others."""
    whole = rendered(text)
    assert not whole["references"]
    for end in ends:
        found = rendered(text[:end])
        settled = found["nodes"][: found["settled"]]
        rest = "\n".join(text.split("\n")[found["lines"] :])
        assert [*settled, *nodes(rest)] == whole["nodes"], repr(text[:end])


def test_text_that_follows_never_changes_settled_blocks() -> None:
    choice = random.Random(8)
    for _ in range(150 if os.environ.get("SIMULATION_DEEP") else 60):
        text = "".join(choice.choices(ATOMS, k=choice.randint(3, 14)))
        assert_settled_stays(text, list(range(1, len(text) + 1)))


def test_settled_blocks_of_guide_are_those_of_its_whole() -> None:
    text = (ROOT / "docs" / "console.md").read_text()
    assert_settled_stays(text, random.Random(8).sample(range(len(text)), 20))


def test_text_that_defines_references_says_so() -> None:
    assert rendered("[a]\n\nb")["references"] is False
    found = rendered("[a]\n\n[a]: https://b.c")
    assert (found["references"], found["nodes"]) == (True, [node("p", link("https://b.c", "a"))])


@pytest.mark.deep
@each_row(
    "text",
    [
        *("![", "[a](", "<http:a", "`a``", "a**b", "*a _b ", "~~a", "> a\n>> b\n", "- a\n\n", "1. a\n", "[a]: b '\n", "&#1"),
        *("a|\n-|\n", "a\n", "=\n", "~~~\n```\n", "<!--", "https://a.b/(", "\0", "> - ", "\ud800", "- [x] ", "\u2028"),
    ],
)  # fmt: skip
def test_markdown_of_repeated_markup_is_rendered(text: str) -> None:
    """Render 20,000 characters, for which a parser that searches to the end again and again would take minutes."""
    many = text * (MANY // len(text))
    assert isinstance(rendered(many)["nodes"], list)


def test_text_of_deep_nodes_is_kept() -> None:
    deep = "".join(f"{'  ' * level}- level{level}\n" for level in range(40))
    for text in (deep, ">" * 40 + " end", "[" * 20_000, "![" * 10_000):
        found = nodes(text)
        assert words(found).split() == text.split()
        assert depth(found) <= 50
    strong = nodes("**a " * 200 + "b**" * 200)
    assert words(strong).split() == ["a"] * 200 + ["b" * 200]
    assert depth(strong) <= 50


def depth(found: list[Node]) -> int:
    return 1 + max((depth(each["children"]) for each in found if isinstance(each, dict)), default=0)
