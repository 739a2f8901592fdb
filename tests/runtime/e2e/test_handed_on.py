"""Turn longer than its Lambda invocation: ApiFunction hands the turn off before the timeout; TaskFunction resumes it."""

import json
from pathlib import Path
from typing import Any

import httpx

from aion_tools.stack.stack import LocalStack
from tests.runtime.e2e.test_killed import at_rest
from tests.support.e2e.agents.steps import STEPS, texts_of_steps
from tests.support.e2e.api_process import api_process
from tests.support.e2e.function_process import task_process
from tests.support.e2e.runtime_process import running
from tests.support.fake_runtime_api import FakeRuntimeApi
from tests.support.histories import json_messages_of
from tests.support.recorded import function_url_event
from tests.support.service import send

CONFIG = Path(__file__).parents[2] / "support" / "e2e" / "agents" / "steps.yaml"


async def test_turn_longer_than_invocation_is_handed_off(tmp_path: Path) -> None:
    """Run several steps: the stream has no error, each step runs once, and another process ends the task.

    The third step ends after the runner has asked the turn to stop, and the next process waits for the end of the stream.
    """
    notes, streamed = tmp_path / "notes", tmp_path / "streamed"
    with LocalStack.start("template.yaml") as stack:
        environ: dict[str, Any] = {"NOTED_IN": str(notes), "STEP_SECONDS": "0"}
        # Disable authentication, so that both processes see the same caller. AION_AUTH=off requires AWS_SAM_LOCAL here.
        nobody_asks = {"AION_AUTH": "off", "AWS_SAM_LOCAL": "true"}
        there = {**stack.environment("ApiFunction"), **environ, **nobody_asks, "DRAINED_IN": "three"}
        there["AION_CONFIG"] = str(CONFIG)
        there.pop("AWS_LAMBDA_EXEC_WRAPPER", None)
        with task_process(stack, CONFIG, **environ, STARTED_BY=str(streamed)):
            async with (
                FakeRuntimeApi([]) as api,
                running("handlers.api:app", api=api.address, environ=there),
            ):
                event = function_url_event(
                    "/", method="POST", body=json.dumps(send("go", method="SendStreamingMessage"))
                )
                event["headers"] |= {"content-type": "application/json", "host": "127.0.0.1"}
                # With this deadline the turn has 16 s to reach the third step, also on a machine that pauses.
                invocation = api.invoke(event, deadline_in=24)
                answer = await invocation.answered()
                streamed.touch()
            with api_process(stack, CONFIG, **environ) as elsewhere:
                whole = b"".join(answer.chunks).decode()
                first = json.loads(whole.partition("data: ")[2].partition("\n")[0])["result"]["task"]
                task = at_rest(elsewhere.url, first["id"])
                got = httpx.post(
                    elsewhere.url,
                    json={"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": first["id"]}},
                    timeout=60,
                ).json()["result"]
    assert answer.trailers == {}, "the stream was not cut"
    assert "did one" in whole
    assert "TASK_STATE_COMPLETED" not in whole
    assert notes.read_text().split() == STEPS, "each step once, over two processes"
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    said = [entry["parts"][0]["text"] for entry in json_messages_of(got)]
    assert said == ["go", *texts_of_steps()]
