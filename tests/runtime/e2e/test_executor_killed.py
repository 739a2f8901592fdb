"""Killed worker with executor agents: each task fails or restarts, as the agent's `resume` setting says."""

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from aion_tools.stack.stack import LocalStack
from tests.runtime.e2e.test_killed import AGENTS, SHORT_LEASE, at_rest, wait_for_line
from tests.support.e2e.api_process import api_process
from tests.support.e2e.function_process import task_process
from tests.support.service import send


def test_resume_setting_decides_whether_interrupted_executor_runs_again(own_stack: LocalStack, tmp_path: Path) -> None:
    """Kill a worker process: with `resume: fail` no step runs again; with `restart` no text is streamed twice."""
    notes, config = tmp_path / "notes", AGENTS / "executing.yaml"
    environ: dict[str, Any] = {"NOTED_IN": str(notes), **SHORT_LEASE}
    with api_process(own_stack, config, **environ) as api:
        urls = {agent: f"{api.url}/agents/{agent}" for agent in ("failing", "restarting")}
        with task_process(own_stack, config, **{**environ, "STEP_SECONDS": "60"}) as first:
            ids = {}
            for agent, url in urls.items():
                body = send(agent, message_id="m-1", contextId="killed")
                body["params"]["configuration"] = {"returnImmediately": True}
                ids[agent] = httpx.post(url, json=body, timeout=60).json()["result"]["task"]["id"]
            for agent in urls:
                wait_for_line(notes, f"{agent}-one", first)
            os.kill(first.pid, signal.SIGKILL)
        with task_process(own_stack, config, sweeps=1.0, **{**environ, "STEP_SECONDS": "0"}):
            failed, restarted = (at_rest(urls[agent], ids[agent]) for agent in urls)
    assert failed["status"]["state"] == "TASK_STATE_FAILED"
    assert "not resumable" in failed["status"]["message"]["parts"][0]["text"]
    assert failed["artifacts"][0]["parts"] == [{"text": "one "}], "what was recorded stays"
    assert restarted["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "".join(part["text"] for part in restarted["artifacts"][0]["parts"]) == "one two three "
    said = [message["parts"][0]["text"] for message in restarted["history"]]
    assert said == ["restarting", "Off we go.", "Done."]
    ran = Counter(notes.read_text().split())
    assert ran == {"failing-one": 1, "restarting-one": 2, "restarting-two": 1, "restarting-three": 1}
