"""Tree of a Markdown text: CommonMark with tables, strikethrough, task lists and bare addresses. HTML stays text."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from aion_core.web.markdown.highlight import Highlighter

NESTING = 20
"""Maximum depth of blocks in blocks. A deeper block is shown as it is written."""
DEPTH = 2 * NESTING
"""Maximum depth of nodes. The text of deeper nodes is in their ancestor."""

Node = str | dict[str, Any]
"""Text, or a node: `tag`, `children`, and by tag `href`, `src`, `alt`, `align`, `start`, `checked` or `language`.

The children of a `pre` are the pieces of its code.
"""

_MARKDOWN = MarkdownIt("commonmark", {"html": False, "maxNesting": NESTING}).enable(["table", "strikethrough"])
_LINE_END = re.compile(r"\r\n?")
# An address ends before the punctuation of its sentence, and has only the brackets that it closes.
_ADDRESS = re.compile(
    r"https?://(?:[^\s<>()]|\([^\s<>()]*\))*(?:[^\s<>()?!.,:;*_~'\"\]}]|\([^\s<>()]*\))", re.IGNORECASE
)
_BOX = re.compile(r"\[([ xX])\]\s+")
_DIGITS = re.compile(r" {0,3}\d+")


def rendered(text: str) -> dict[str, Any]:
    """Return the tree of a text, in a time that grows with its length only, whatever it is.

    `nodes` are the blocks of the text. Text that follows can't change the first `settled` of them, which are made of
    the first `lines` lines, unless it defines `references`. This is true if the text itself defines some.
    """
    text = _LINE_END.sub("\n", text)
    environment: dict[str, Any] = {}
    tokens = _MARKDOWN.parse(text, environment)
    blocks = list(_blocks(tokens))
    highlighter = Highlighter(len(text))
    nodes = [_node(block, text, highlighter) for block in blocks]
    line = _unsettled([block[0] for block in blocks], text)
    settled = len(nodes) - 1 if line else 0
    return {"nodes": nodes, "settled": settled, "lines": line, "references": bool(environment.get("references"))}


def _blocks(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the tokens of each block that is in no other block."""
    block: list[Token] = []
    for token in tokens:
        block.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield block
            block = []


def _unsettled(first_tokens: list[Token], text: str) -> int:
    """Return the line at which the last block begins, if text that follows can't change the blocks before it; else 0."""
    if len(first_tokens) < 2 or (place := first_tokens[-1].map) is None:
        return 0
    lines, start = text.split("\n"), place[0]
    complete = len(lines) - 1
    if lines[start - 1].strip():
        # Without a blank line between them, the last block may yet become a line of the one before: a table, whose second
        # line is not complete, or `#` without its space.
        return start if complete >= start + 2 else 0
    # A number may yet become the next item of a list.
    return start if complete > start or not _DIGITS.fullmatch(lines[start]) else 0


def _node(block: list[Token], text: str, highlighter: Highlighter) -> Node:
    """Return the node of a block."""
    if max(token.level for token in block) >= NESTING - 1 and (lines := block[0].map):
        # Here markdown-it drops what is nested deeper.
        return {"tag": "pre", "language": "", "children": ["\n".join(text.split("\n")[slice(*lines)])]}
    root: dict[str, Any] = {"tag": "", "children": []}
    stack = [root]
    for token in _flat(block):
        inner = stack[-1]
        if token.nesting < 0:
            stack.pop()
        elif token.nesting == 0:
            inner["children"] += _leaves(token, stack, highlighter)
        elif token.hidden or len(stack) > DEPTH:
            stack.append(inner)
        else:
            stack.append(_opened(token))
            inner["children"].append(stack[-1])
    made: Node = root["children"][0]
    return made


def _flat(block: Iterable[Token]) -> Iterator[Token]:
    for token in block:
        if token.type == "inline":
            yield from token.children or ()
        else:
            yield token


def _opened(token: Token) -> dict[str, Any]:
    """Return the node of an opening token, without children."""
    attributes = {name: value for name, value in token.attrs.items() if name in ("href", "start")}
    if style := token.attrs.get("style"):
        attributes["align"] = str(style).removeprefix("text-align:")
    return {"tag": token.tag, **attributes, "children": []}


def _leaves(token: Token, stack: list[dict[str, Any]], highlighter: Highlighter) -> list[Node]:
    """Return the nodes of a token without children. Mark the item of a task list."""
    match token.type:
        case "text":
            content = _without_box(token.content, stack)
            return [content] if any(node["tag"] == "a" for node in stack) else list(_with_links(content))
        case "softbreak" | "hardbreak":
            return [{"tag": "br", "children": []}]
        case "code_inline":
            return [{"tag": "code", "children": [token.content]}]
        case "image":
            label = "".join(each.content for each in token.children or ())
            return [{"tag": "img", "src": token.attrs["src"], "alt": label, "children": []}]
        case "fence" | "code_block":
            language, pieces = highlighter.pieces(token.content.removesuffix("\n"), token.info.split(" ")[0])
            return [{"tag": "pre", "language": language, "children": pieces}]
        case _:
            return [{"tag": token.tag, "children": []}]


def _without_box(text: str, stack: list[dict[str, Any]]) -> str:
    """Note the state of a task in its list item, if the text begins with a box. Return the text without the box."""
    paragraph, outer = stack[-1], stack[-2]
    item = paragraph if paragraph["tag"] == "li" else outer
    is_first = not paragraph["children"] and (item is paragraph or item["children"] == [paragraph])
    if item["tag"] == "li" and is_first and (box := _BOX.match(text)):
        item["checked"] = box[1] != " "
        return text[box.end() :]
    return text


def _with_links(text: str) -> Iterator[Node]:
    """Yield the text with its bare addresses as links."""
    place = 0
    for found in _ADDRESS.finditer(text):
        if start := text[place : found.start()]:
            yield start
        yield {"tag": "a", "href": found[0], "children": [found[0]]}
        place = found.end()
    if rest := text[place:]:
        yield rest
