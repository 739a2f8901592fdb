"""Frame of the drivers in Python: it plays each cell with one client, and prints what the user sees.

The cells come as JSON on standard input, and the texts go as JSON into a file, because clients print lines of their own.
A driver gives `play` a class with one object for each conversation. Of the methods `send(text)`, `stream(text)`,
`send_to(task, text)`, `stream_to(task, text)` and `get(task)`, each of which returns what the user sees, it has those that
its client has.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

TIMEOUT = 120
"""Seconds for a call; they pass only if the client hangs."""

NOTHING = "(nothing)"


def play(conversation: Any) -> None:
    """Play the cells, and write a JSON object with their texts. None means that the client has no such call."""
    given = json.load(sys.stdin)
    texts = asyncio.run(_texts(conversation, given["url"], given["cells"]))
    Path(given["into"]).write_text(json.dumps(texts), encoding="utf-8")


async def _texts(conversation: Any, url: str, cells: list[dict[str, Any]]) -> dict[str, str | None]:
    """Play one cell after another, and the slow cells beside them."""
    texts: dict[str, str | None] = {}

    async def play_all(cells: list[dict[str, Any]]) -> None:
        for cell in cells:
            texts[cell["name"]] = await _shown(conversation(f"{url}/agents/{cell['agent']}"), cell)

    slow = [[cell] for cell in cells if cell["slow"]]
    await asyncio.gather(*map(play_all, slow), play_all([cell for cell in cells if not cell["slow"]]))
    return texts


async def _shown(conversation: Any, cell: dict[str, Any]) -> str | None:
    """Return what the user sees after each call of the cell."""
    call = getattr(conversation, cell["call"], None)
    if call is None:
        return None
    shown = []
    for arguments in cell["arguments"]:
        try:
            text = await asyncio.wait_for(call(*arguments), TIMEOUT)
            shown.append(text.strip() or NOTHING)
        except Exception as error:
            shown.append(f"{type(error).__name__}: {error}")
    return " → ".join(shown)


class Screen:
    """Output of a program for the terminal: texts as they come, each artifact and message once."""

    def __init__(self) -> None:
        self._texts: list[tuple[str, str]] = []

    def add(self, key: str, text: str, *, append: bool = False) -> None:
        """Show the text of the artifact or message with this id, unless it is there already."""
        if append and self._texts and self._texts[-1][0] == key:
            self._texts[-1] = (key, self._texts[-1][1] + text)
        elif text and (key, text) not in self._texts:
            self._texts.append((key, text))

    def __str__(self) -> str:
        return " | ".join(text for _, text in self._texts)
