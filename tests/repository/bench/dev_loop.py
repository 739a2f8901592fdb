"""Costs of `aion dev`: the first start (without stored state), the second start, and from an edit to its first answer.

`python -m tests.repository.bench.dev_loop [--framework adk] [--edits 5]` has no limit, because times depend on the machine.
CPU times and memory are those of all processes together, on Linux.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import httpx

from tests.repository.bench.newcomer import cpu_of_session
from tests.support.server import serving
from tests.support.service import send

LANGGRAPH = """
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph

async def answer(state: MessagesState) -> dict:
    return {"messages": [AIMessage("VERSION")]}

graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").add_edge("answer", END).compile()
"""
ADK = """
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai.types import Content, Part

class Answering(BaseAgent):
    async def _run_async_impl(self, context):
        yield Event(author=self.name, content=Content(role="model", parts=[Part(text="VERSION")]))

root_agent = Answering(name="answering")
"""


def main() -> None:
    """Measure the times with a small agent, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", choices=["langgraph", "adk"], default="langgraph")
    parser.add_argument("--edits", type=int, default=5)
    given = parser.parse_args()
    code = LANGGRAPH if given.framework == "langgraph" else ADK
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        agent = folder / "agent.py"
        agent.write_text(code.replace("VERSION", "0"))
        (folder / "aion.yaml").write_text("aion: {agents: {answering: {path: agent.py}}}")
        started(folder, "start, empty state")
        started(folder, "start again")
        command = as_user(folder)
        with serving(command, AION_DATA_DIR=str(folder / ".aion")) as server, httpx.Client(timeout=60) as http:
            asked(http, server.url)
            took, cpu = [], []
            for version in range(1, given.edits + 1):
                began, before = time.monotonic(), cpu_of_session(server.process.pid)
                agent.write_text(code.replace("VERSION", str(version)))
                while asked(http, server.url) != str(version):
                    time.sleep(0.02)
                took.append(time.monotonic() - began)
                cpu.append(cpu_of_session(server.process.pid) - before)
            print(
                f"edit to served            {statistics.median(took):5.2f} s, {statistics.median(cpu):.2f} s of CPU "
                f"(medians of {len(took)}; slowest {max(took):.2f} s)"
            )
            began = time.monotonic()
            server.stop()
            print(f"Ctrl-C                    {time.monotonic() - began:5.2f} s")


def as_user(folder: Path) -> list[str]:
    """Return the command of a user, in a new interpreter: forked test processes would skip the time of the imports."""
    return [str(Path(sys.executable).with_name("aion")), "dev", "--config", str(folder / "aion.yaml")]


def started(folder: Path, what: str) -> None:
    """Start `aion dev`, print the times until its greeting and its first answer, and stop it."""
    began = time.monotonic()
    with serving(as_user(folder), AION_DATA_DIR=str(folder / ".aion")) as server:
        greeted = time.monotonic() - began
        session = server.process.pid
        with httpx.Client(timeout=60) as http:
            http.get(f"{server.url}/.well-known/agent-card.json").raise_for_status()
            cpu, memory = cpu_of_session(session), memory_of_session(session)
            asked(http, server.url)
        print(
            f"{what:25} {greeted:5.2f} s; first card after {cpu:.2f} s of CPU, {sum(memory):.0f} MB in {len(memory)} processes; "
            f"first answer {cpu_of_session(session) - cpu:.2f} s of CPU later"
        )
        server.stop()


def memory_of_session(session: int) -> list[float]:
    """Read from /proc the resident memory of each process of a session, in MB."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended
            if int((folder / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                found.append(int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20)
    return found


def asked(http: httpx.Client, url: str) -> str:
    """Send a message; return the agent's answer, or "" if the worker was stopped during its turn."""
    status = http.post(url, json=send("hello")).json()["result"]["task"]["status"]
    return str(status["message"]["parts"][0]["text"]) if "message" in status else ""


if __name__ == "__main__":
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}")
    subprocess.run([sys.executable, "-c", "import aion_tools.cli.main"], check=True)
    main()
