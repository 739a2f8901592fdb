"""Terminal recording for the README: `aion dev` and `aion chat`, with a killed worker (`make terminal`)."""

import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from pathlib import Path

import httpx
import pexpect
import pyte

from scripts.terminal_svg import Frame, Line, svg_of

IMAGE = Path(__file__).parent.parent / "docs" / "images" / "terminal.svg"

COLUMNS, ROWS = 96, (17, 22)
"""Columns of both panes, and rows of the server's pane (above) and of the client's pane (below)."""

FRAME_SECONDS, LONGEST_SECONDS = 0.12, 1.2
"""Shortest and longest duration of a frame. Longer frames are shortened."""

LABEL = (
    "A terminal: aion dev serves a trip planner, aion chat streams its answer. The worker is killed in the middle of a table; "
    "another worker takes over, and the same stream goes on. aion why explains the task."
)

AGENT = Path(__file__).parent.parent / "examples" / "trip"


class Pane:
    """Terminal with a shell, and its screen."""

    def __init__(self, rows: int, folder: Path) -> None:
        self._screen, self._lock = pyte.Screen(COLUMNS, rows), threading.Lock()
        self._stream = pyte.Stream(self._screen)
        environ = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(folder),
            "TERM": "xterm-256color",
            "PS1": "$ ",
            "AION_LEASE_SECONDS": "2",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "LANG": "C.UTF-8",
        }
        self.shell = pexpect.spawn(
            "/bin/bash",
            ["--norc", "--noprofile"],
            cwd=str(folder),
            env=environ,
            dimensions=(rows, COLUMNS),
            encoding="utf-8",
        )
        self._text, self._arrived = "", threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with suppress(pexpect.EOF, OSError, ValueError):
            while True:
                text = self.shell.read_nonblocking(4096, timeout=None)
                with self._lock:
                    self._stream.feed(text)
                with self._arrived:
                    self._text += text
                    self._arrived.notify_all()

    def expect(self, pattern: str, seconds: float = 90) -> re.Match[str]:
        """Wait until new output, after the last match, matches the pattern. Return the match. Raises TimeoutError."""
        found: list[re.Match[str]] = []

        def is_there() -> bool:
            found.extend(each for each in [re.search(pattern, self._text)] if each)
            return bool(found)

        with self._arrived:
            if not self._arrived.wait_for(is_there, seconds):
                raise TimeoutError(f"{pattern!r} did not appear in: {self._text}")
            self._text = self._text[found[0].end() :]
        return found[0]

    def type(self, text: str) -> None:
        """Type a line, as slowly as a person, and press Enter."""
        for char in text:
            self.shell.send(char)
            time.sleep(0.04)
        self.shell.send("\r")

    def lines(self) -> tuple[Line, ...]:
        """Return the lines of the screen."""
        with self._lock:
            rows = (self._screen.buffer[row] for row in range(self._screen.lines))
            return tuple(tuple(row[column] for column in range(COLUMNS)) for row in rows)


@contextmanager
def recording(panes: tuple[Pane, ...]) -> Iterator[list[Frame]]:
    """Record the screens of the panes until the block ends."""
    frames: list[Frame] = []
    ended, began = threading.Event(), time.monotonic()

    def record() -> None:
        while not ended.wait(FRAME_SECONDS):
            screens = tuple(pane.lines() for pane in panes)
            if not frames or frames[-1][1] != screens:
                frames.append((time.monotonic() - began, screens))

    thread = threading.Thread(target=record)
    thread.start()
    try:
        yield frames
    finally:
        ended.wait(2 * FRAME_SECONDS)
        ended.set()
        thread.join()


def shortened(frames: list[Frame]) -> list[Frame]:
    """Return the frames with pauses shortened to at most LONGEST_SECONDS."""
    pauses = (min(after[0] - before[0], LONGEST_SECONDS) for before, after in pairwise(frames))
    return [(at, panes) for at, (_, panes) in zip(accumulate(pauses, initial=0.0), frames, strict=True)]


def _kill_worker(url: str) -> None:
    """Kill the worker with the same request as the button in the web console."""
    # Ignore the lost connection, because the killed worker does not respond.
    with suppress(httpx.TransportError):
        httpx.post(f"{url}/agents/trip/console/kill", json={}, timeout=10).raise_for_status()


def record(folder: Path) -> list[Frame]:
    """Play the session with the trip planner in the folder, and return its frames."""
    shutil.copytree(AGENT, folder, dirs_exist_ok=True)
    server, client = panes = (Pane(ROWS[0], folder), Pane(ROWS[1], folder))
    for pane in panes:
        pane.expect(r"\$ ")
    with recording(panes) as frames:
        server.type("aion dev --port 0")
        url = server.expect(r"http://127\.0\.0\.1:\d+")[0]
        server.expect("Ctrl-C")
        client.type("aion chat")
        client.expect("you>")
        client.type("A weekend in Lisbon in May for two")
        client.expect("Castelo")
        _kill_worker(url)
        client.expect("as a file")
        client.expect("you>")
        client.type("/quit")
        client.expect(r"\$ ")
        client.type("aion why last")
        client.expect("Now:")
        client.expect(r"\$ ")
    server.shell.sendintr()
    server.expect(r"\$ ")
    for pane in panes:
        pane.shell.close()
    return frames


def main() -> None:
    """Record the session, and write docs/images/terminal.svg."""
    with tempfile.TemporaryDirectory() as above:
        folder = Path(above) / "my-agent"
        folder.mkdir()
        frames = shortened(record(folder))
    IMAGE.write_text(svg_of(frames, ["aion dev", "aion chat"], label=LABEL), encoding="utf-8")
    print(f"{IMAGE}: {IMAGE.stat().st_size // 1024} KB, {len(frames)} frames, {frames[-1][0]:.0f} s")


if __name__ == "__main__":
    main()
