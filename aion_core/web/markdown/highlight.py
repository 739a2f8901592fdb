"""Colours of code by Pygments, within a limit of processor time."""

import signal
from collections.abc import Iterator
from functools import cache
from types import FrameType

from pygments.lexer import Lexer
from pygments.lexers import get_all_lexers, get_lexer_by_name
from pygments.token import Token, _TokenType

SECONDS, SECONDS_PER_CHARACTER = 0.1, 10e-6
"""Processor time of a text's code. Pygments takes about 1 µs for a character of common code."""

KINDS = {
    Token.Comment: "comment",
    Token.Keyword: "keyword",
    Token.Operator.Word: "keyword",
    Token.Literal.String: "string",
    Token.Literal.Number: "number",
    Token.Name.Function: "name",
    Token.Name.Class: "name",
    Token.Name.Tag: "keyword",
    Token.Name.Attribute: "name",
    Token.Name.Decorator: "name",
    Token.Name.Builtin: "builtin",
    Token.Generic.Inserted: "string",
    Token.Generic.Deleted: "deleted",
    Token.Generic.Heading: "name",
}
"""Kinds of coloured pieces by Pygments' types. A type has the kind of its nearest ancestor."""

Piece = str | list[str]
"""Piece of code without a colour, or `[kind, piece]`."""


class _TimeSpent(Exception):
    """Error: the processor time is spent."""


class Highlighter:
    """Highlighter of one text's code, in the main thread of a process.

    Many of Pygments' patterns take quadratic or cubic time for some inputs. A timer stops them: the rest has no colours.
    """

    def __init__(self, characters: int) -> None:
        """`characters` is the length of the text."""
        self._left = SECONDS + SECONDS_PER_CHARACTER * characters

    def pieces(self, code: str, alias: str) -> tuple[str, list[Piece]]:
        """Return the name of the language with this alias, and the pieces of the code. They add up to the code."""
        if (name := _languages().get(alias.lower())) is None:
            return alias, [code]
        return name, list(_joined(code, self._kinds(code, _lexer(name))))

    def _kinds(self, code: str, lexer: Lexer) -> list[tuple[int, str]]:
        """Return the places in the code at which another kind begins, in order. Stop when the time is spent."""
        found: list[tuple[int, str]] = []
        if self._left <= 0:
            return found
        before = signal.signal(signal.SIGVTALRM, _stop)
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, self._left)
            end = 0
            for place, token_type, value in lexer.get_tokens_unprocessed(code):
                if place != end:
                    break  # this lexer does not go through the code in order
                end = place + len(value)
                if not found or found[-1][1] != _kind(token_type):
                    found.append((place, _kind(token_type)))
        except _TimeSpent:
            found.append((end, ""))
        finally:
            self._left = signal.setitimer(signal.ITIMER_VIRTUAL, 0)[0]
            signal.signal(signal.SIGVTALRM, before)
        return found


def _stop(number: int, frame: FrameType | None) -> None:
    raise _TimeSpent


def _joined(code: str, kinds: list[tuple[int, str]]) -> Iterator[Piece]:
    for (place, kind), (end, _) in zip([(0, ""), *kinds], [*kinds, (len(code), "")], strict=True):
        if piece := code[place:end]:
            yield [kind, piece] if kind else piece


@cache
def _languages() -> dict[str, str]:
    """Return the first alias of each language by all its aliases, without those of plugins: they take long to find."""
    return {alias: aliases[0] for _, aliases, *_ in get_all_lexers(plugins=False) for alias in aliases}


@cache
def _lexer(alias: str) -> Lexer:
    return get_lexer_by_name(alias)


@cache
def _kind(token_type: _TokenType) -> str:
    return next((KINDS[each] for each in reversed(token_type.split()) if each in KINDS), "")
