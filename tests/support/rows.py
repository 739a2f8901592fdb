"""The requirements that a text names: `R52`, or `R29-R31`."""

import re

ROWS = 114
"""How many there are."""

_ROW = re.compile(r"\bR(\d+)(?:-R?(\d+))?\b")


def rows_in(text: str) -> list[str]:
    """The numbers of the rows that the text names, in order."""
    named = {row for first, last in _ROW.findall(text) for row in range(int(first), int(last or first) + 1)}
    return [str(row) for row in sorted(named) if 1 <= row <= ROWS]
