"""Times of a newcomer's first steps: install, new project, server, first streamed word, edit, build.

`python -m tests.repository.bench.newcomer` takes the steps in three rounds, each with an empty home folder: with empty package caches,
with a filled uv cache, and with filled caches of uv and `aion build`. It prints the time of each step. With `--check` it exits
with 1 if a round takes longer than its limit.
"""

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from aion_tools.programs import find_uv
from tests.support.installed import wheel
from tests.support.service import send

ROUNDS = {
    "empty package caches": ("first", 60.0),
    "warm cache of uv": ("second", None),
    "warm caches of uv and of aion build": ("second", 15.0),
}
"""Cache folder of `aion build` and time limit in seconds (or None) of each round."""

SECONDS = 600
"""Time limit of one step."""


@dataclass
class Round:
    """One round of all steps, with an empty home folder."""

    home: Path
    uv_cache: Path
    build_cache: Path
    wheel: Path
    framework: str
    times: dict[str, float] = field(default_factory=dict)
    session: int = 0
    """Session id of the running `aion dev`; 0 without one."""

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment variables of a new user's shell."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "LANG", "SSL_"))}
        path = f"{Path(find_uv()).parent}:/usr/local/bin:/usr/bin:/bin"
        pyenv = os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv")
        own = {"HOME": str(self.home), "PATH": path, "PYENV_ROOT": pyenv, "UV_PYTHON": sys.executable}
        return {**kept, **own, "UV_CACHE_DIR": str(self.uv_cache), "AION_PACKAGE_CACHE": str(self.build_cache)}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure the duration and the CPU time of the block, and print both."""
        began, cpu = time.monotonic(), self.cpu_seconds()
        yield
        self.times[name] = time.monotonic() - began
        print(f"  {name:36}{self.times[name]:7.1f} s {self.cpu_seconds() - cpu:7.1f} s of CPU", flush=True)

    def cpu_seconds(self) -> float:
        """Return the CPU time of ended child processes and, on Linux, of the running server.

        Other load on the machine hardly changes CPU times.
        """
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime + ended.ru_stime + (cpu_of_session(self.session) if self.session else 0.0)

    def walk(self) -> float:
        """Take all steps; return their total duration in seconds."""
        project = self.home / "my-agent"
        source = f"aion-lambda[local] @ {self.wheel.as_uri()}"
        with self.step("install, aion new"):
            self._run(self.home, find_uv(), "tool", "run", "--from", source, "aion", "new", "my-agent", "--framework", self.framework)  # fmt: skip
        with self._served(project) as url:
            with self.step("first streamed word"):
                assert _first_word(url), "The stream has no word."
            with self.step("edit, reload, first streamed word"):
                _edit(project / "agent.py")
                until = time.monotonic() + SECONDS
                while _first_word(url) != "Edited:":
                    assert time.monotonic() < until, "The edited agent is not served."
                    time.sleep(0.02)
        with self.step("aion build"):
            self._run(project, find_uv(), "run", "aion", "build")
        return sum(self.times.values())

    def _run(self, folder: Path, *command: str) -> None:
        done = subprocess.run(
            command,
            cwd=folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}")

    @contextmanager
    def _served(self, project: Path) -> Iterator[str]:
        """Run `aion dev` in the project until the block ends; yield its URL."""
        process = subprocess.Popen(
            [find_uv(), "run", "aion", "dev", "--port", "0"],
            cwd=project, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        printed, self.session = "", process.pid
        # Kill the server if it does not start in time.
        timer = threading.Timer(SECONDS, os.killpg, [process.pid, signal.SIGKILL])
        timer.start()
        try:
            with self.step("uv sync, aion dev"):
                for line in process.stdout:
                    printed += line
                    if line.startswith("Press Ctrl-C"):
                        break
            found = re.search(r"http://127\.0\.0\.1:\d+", printed)
            if not found:
                raise SystemExit(f"aion dev failed:\n{printed}")
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield found[0]
        finally:
            timer.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                process.wait(timeout=60)
            self.session = 0


def _first_word(url: str) -> str:
    """Send a message and return the first word of the streamed answer; "" if the server restarts before it."""
    streaming = send("hello") | {"method": "SendStreamingMessage"}
    try:
        with httpx.stream("POST", url, json=streaming, timeout=60) as response:
            for line in response.iter_lines():
                event = json.loads(line.removeprefix("data:")) if line.startswith("data:") else {}
                update = event.get("result", {}).get("artifactUpdate", {})
                text = "".join(part.get("text", "") for part in update.get("artifact", {}).get("parts", ()))
                if text.strip():
                    return str(text.split()[0])
    except httpx.TransportError:
        return ""
    return ""  # the stream ended for the reload: the task goes on in the new worker


def _edit(agent: Path) -> None:
    """Edit the agent: its answers now begin with "Edited:"."""
    before = agent.read_text(encoding="utf-8")
    after = before.replace("Your message has", "Edited: the message has")
    if after == before:
        raise SystemExit(f"{agent} has no answer to edit.")
    agent.write_text(after, encoding="utf-8")


def cpu_of_session(session: int) -> float:
    """Read from /proc the CPU time of a session's processes and their ended children."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            fields = file.read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15])) if int(fields[3]) == session else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run the rounds, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=["langgraph", "adk", "executor"], default="langgraph")
    parser.add_argument("--check", action="store_true", help="exit with 1 above a limit")
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}, {given.framework}")
    too_long = []
    with tempfile.TemporaryDirectory() as place:
        built = wheel(Path(place) / "dist")
        for number, (caches, (folder, limit)) in enumerate(ROUNDS.items()):
            print(f"{caches}:")
            home = Path(place) / f"home-{number}"
            home.mkdir()
            walked = Round(home, Path(place) / "uv", Path(place) / folder, built, given.framework)
            before = walked.cpu_seconds()
            took = walked.walk()
            cpu = walked.cpu_seconds() - before
            at_most = f"(limit {limit:.0f} s), " if limit else ""
            print(f"  {'in all':36}{took:7.1f} s {at_most}{cpu:.1f} s of CPU\n", flush=True)
            too_long += [caches] if limit and took > limit else []
    sys.exit(1 if given.check and too_long else 0)


if __name__ == "__main__":
    main()
