"""Time to the first streamed word: install the wheel, serve a folder with an agent, send a message.

`python -m tests.bench.first_word` runs first with an empty package cache and home, then with the filled ones. It
asserts nothing, since the times depend on the machine and the network.
"""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import httpx

from aion_core.packaging.programs import find_uv
from tests.support.installed import wheel

AGENT = """
from langchain_core.messages import AIMessageChunk
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph

from aion.langgraph.stream import emit_message


async def answer(state: MessagesState) -> dict:
    for word in ("one ", "two ", "three"):
        emit_message(get_stream_writer(), AIMessageChunk(content=word, id="words"))
    return {}


graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
"""


def main() -> None:
    """Print the times."""
    with tempfile.TemporaryDirectory() as place:
        base = Path(place)
        built = wheel(base / "dist")
        folder = base / "my-agent"
        folder.mkdir()
        (folder / "agent.py").write_text(AGENT)
        (base / "home").mkdir()
        environ = {
            **{
                name: value
                for name, value in os.environ.items()
                if name.startswith(("UV_", "PIP_", "SSL_", "PATH", "LANG"))
            },
            "HOME": str(base / "home"),
            "UV_CACHE_DIR": str(base / "cache"),
        }
        command = [
            find_uv(),
            "tool",
            "run",
            "--quiet",
            "--from",
            f"aion-lambda[langgraph,local] @ {built.as_uri()}",
            "aion",
        ]
        for what in ("empty package cache", "warm package cache", "once more"):
            print(
                f"{what:<24}{_first_word([*command, 'dev', '--port', '0'], folder, environ):6.1f} s to the first word"
            )


def _first_word(command: list[str], folder: Path, environ: dict[str, str]) -> float:
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None  # it is a pipe
    try:
        printed = ""
        for line in process.stdout:
            printed += line
            if line.startswith("Press Ctrl-C"):
                break
        found = re.search(r"(http://127\.0\.0\.1:\d+)/", printed)
        if not found:
            raise SystemExit(printed)
        message = {"messageId": f"m-{began}", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        request = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
        with httpx.stream("POST", f"{found[1]}/", json=request, timeout=60) as answer:
            for line in answer.iter_lines():
                if line.startswith("data:") and "artifactUpdate" in json.loads(line[5:]).get("result", {}):
                    return time.monotonic() - began
        raise SystemExit("The stream ended without a word.")
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=30)


if __name__ == "__main__":
    main()
