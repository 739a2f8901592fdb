"""Code blocks of the README, docs/ and examples/, and the execution of a page as one shell script."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.server import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "tests/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
SCRIPTS = [
    "docs/development.md",
    "docs/files.md",
    "docs/from-a2a-sdk.md",
    "docs/from-adk-web.md",
    "docs/from-aion-python-sdk.md",
    "docs/from-langgraph-api.md",
    "docs/index.md",
    "docs/interrupts.md",
    "docs/long-tasks.md",
    "docs/quickstart.md",
    "docs/several-agents.md",
    "docs/tutorial.md",
    "docs/waiting.md",
]
"""Pages that tests/tools/e2e/test_pages.py runs as scripts."""
_FENCE = re.compile(r"^( *)```(\w*) ?(.*?)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_NEEDS = re.compile(r"\b[Nn]eeds? (AWS|Google Cloud|docker|an? \w+ key)\b")
_ASSIGNMENT = r"\w+=\S*"
_SERVER = re.compile(rf"^(?:{_ASSIGNMENT} )*(?:uv run aion dev|uvx .*aion dev|aion dev|make dev)\b")


@dataclass(frozen=True, slots=True)
class Block:
    """Fenced code block of a page."""

    page: str
    line: int
    language: str
    title: str
    """File with this content, if the block has a title."""
    code: str
    before: str
    """Paragraph directly before the block."""

    @property
    def needs(self) -> str:
        """Service that the block needs according to the page, such as AWS; empty if none.

        The words are in a comment in the block's first line, or in the paragraph before the block.
        """
        first = self.code.partition("\n")[0]
        comment = re.match(r"\s*(?:#|//)(.*)", first)
        found = _NEEDS.search(comment[1] if comment else "") or _NEEDS.search(self.before)
        return found[1] if found else ""


def blocks(page: str, language: str = "") -> list[Block]:
    """Return the blocks of a page in order: all blocks, or those in one language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        indent, name, rest, code = match.groups()
        title = re.search(r'title="(.+?)"', rest)
        before = text[: match.start()].rstrip("\n").rpartition("\n\n")[2]
        found.append(
            Block(
                page=page,
                line=text.count("\n", 0, match.start()) + 1,
                language=name,
                title=title[1] if title else "",
                code=re.sub(rf"^{indent}", "", code, flags=re.MULTILINE),
                before=before,
            )
        )
    return [block for block in found if language in ("", block.language)]


# ── A page as a script ────────────────────────────────────────────────────────────────────────────────────────────────

_PRELUDE = r"""
set -eu
LOG=$(mktemp); SERVER=; SERVER_GROUP=
stop() {
  if [ -n "$SERVER_GROUP" ]; then kill -TERM -- "-$SERVER_GROUP" 2>/dev/null || true; wait "$SERVER_GROUP" || true; fi
  SERVER_GROUP=
}
alive() { kill -0 "$SERVER_GROUP" 2>/dev/null || { cat "$LOG" >&2; exit 1; }; }
serve() {
  stop
  : > "$LOG"
  PORT=0 setsid "$@" > "$LOG" 2>&1 &
  SERVER_GROUP=$!
  until grep -q "^Press Ctrl-C" "$LOG"; do alive; sleep 0.1; done
  SERVER=$(grep -o "http://127.0.0.1:[0-9]*" "$LOG" | head -n 1)
}
edits() { grep -c "Reloaded.*$(basename "$1")" "$LOG" || true; }
edit() {
  # An earlier command's file may cause a reload of its own.
  before=$(edits "$1")
  # In one step: the server must not load a half-written file.
  sed "s|http://127.0.0.1:8000|${SERVER:-http://127.0.0.1:8000}|" > "$LOG.new"
  mv "$LOG.new" "$1"
  if [ -n "$SERVER_GROUP" ]; then
    until [ "$(edits "$1")" -gt "$before" ]; do alive; sleep 0.1; done
  fi
}
trap stop EXIT
"""
"""Functions of the script: a server in the background until the next one starts, and an edit that waits for its reload."""

_MARK = "@@ block "


def run(page: str, folder: Path, **environ: str) -> dict[int, str]:
    """Run a page's blocks in a folder, in the page's order; return the output of each block by its line.

    A block with a title is written to that file, with the address of the running server. A shell block is run, unless it needs AWS or another service; a server
    in it runs in the background. Raise AssertionError with the whole output if a command fails.
    """
    parts = [_PRELUDE]
    for block in blocks(page):
        # Print a line break first, because the output of the block before may end without one.
        parts.append(f"printf '\\n{_MARK}%s\\n' {block.line}")
        if block.title:
            parts.append(f"mkdir -p $(dirname {shlex.quote(block.title)})")
            parts.append(f"edit {shlex.quote(block.title)} <<'END_OF_FILE'\n{block.code}END_OF_FILE")
        elif block.language == "sh" and not block.needs:
            parts += [_served(line) for line in _lines(block.code)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", "\n".join(parts)],
        cwd=folder,
        env={**os.environ, "PATH": path, "BROWSER": "true", "NO_COLOR": "1", "COLUMNS": "200", **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ran.returncode == 0, f"{page} exited with {ran.returncode}:\n{ran.stdout}"
    outputs = re.split(rf"\n{_MARK}(\d+)\n", ran.stdout)[1:]
    return {int(line): output for line, output in zip(outputs[::2], outputs[1::2], strict=True)}


def _lines(code: str) -> Iterator[str]:
    """Yield the commands of a block: a line, and the lines that continue it after a backslash or within quotes."""
    command = ""
    for line in code.splitlines():
        command += f"{line}\n"
        if not line.endswith("\\") and _complete(command):
            yield command.rstrip("\n")
            command = ""
    assert not command, f"unfinished command: {command}"


def _complete(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


def _served(command: str) -> str:
    if _SERVER.match(command):
        return f"serve env {command}"
    return command.replace("http://127.0.0.1:8000", "$SERVER")


def shown(block: Block, output: str) -> bool:
    """Return True if the block's lines occur in the output in this order; `…` stands for any text, a UTC time for any time."""
    pattern = ".*".join(re.escape(line.strip()).replace("…", ".*") for line in block.code.splitlines() if line.strip())
    pattern = re.sub(r"\d{4}\\-\d\d\\-\d\d\\ \d\d:\d\d:\d\d\\ UTC", r"[-\\d]+ [:\\d]+ UTC", pattern)
    return re.search(pattern, output, re.DOTALL) is not None
