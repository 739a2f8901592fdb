"""Path of a message on Lambda: the runtime loop, the app of handlers.api, and a graph."""

import json
from pathlib import Path

from tests.support.deployment import IN_MEMORY
from tests.support.e2e.gates import Gates
from tests.support.e2e.runtime_process import running
from tests.support.fake_runtime_api import FakeRuntimeApi
from tests.support.recorded import function_url_event
from tests.support.service import send

CONFIG = Path(__file__).parents[2] / "support" / "e2e" / "agents" / "gated.yaml"


async def test_graphs_text_is_streamed_before_graph_ends() -> None:
    """The graph waits at a barrier after its first text: the client already receives this text."""
    journal: list[str] = []
    async with FakeRuntimeApi(journal) as api, Gates(journal) as gates:
        environ = {**IN_MEMORY, "AION_CONFIG": str(CONFIG)}
        async with running("handlers.api:app", api=api.address, gates=gates.address, environ=environ):
            event = function_url_event("/", method="POST", body=json.dumps(send(method="SendStreamingMessage")))
            event["headers"]["content-type"] = "application/json"
            invocation = api.invoke(event, deadline_in=60)
            await gates.reached("between")
            heard, n = b"", 1
            while b"before " not in heard:
                heard += await invocation.chunk(n)
                n += 1
            assert not invocation.is_answered
            assert b'"after"' not in heard
            gates.open("between")
            answer = await invocation.answered()
    assert answer.prelude["statusCode"] == 200
    assert answer.prelude["headers"]["content-type"].startswith("text/event-stream")
    whole = b"".join(answer.chunks[1:]).decode()
    assert whole.count("TASK_STATE_COMPLETED") == 1
    assert "before after" in whole
    assert answer.trailers == {}


async def test_failing_agent_import_is_reported_as_init_error(tmp_path: Path) -> None:
    """Report an init error to Lambda, so that a deployment shows the error before the first message."""
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    config = tmp_path / "aion.yaml"
    config.write_text('aion:\n  agents:\n    broken: {path: "broken.py:graph"}\n')
    environ = {**IN_MEMORY, "AION_CONFIG": str(config)}
    async with (
        FakeRuntimeApi() as api,
        running("handlers.api:app", api=api.address, environ=environ) as runtime,
    ):
        report = await api.init_failed()
        assert await runtime.exit_code() == 1
    assert report.error["errorType"] == "Runtime.LifespanFailed"
    assert "no_such_module" in report.error["errorMessage"]
    assert api.asked == 0
