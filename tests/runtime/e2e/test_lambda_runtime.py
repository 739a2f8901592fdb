"""Process of the Lambda runtime loop, against an HTTP server that implements the Runtime API."""

import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import aion_core.lambda_runtime
from tests.support.e2e.gates import Gates
from tests.support.e2e.runtime_process import RuntimeProcess, running
from tests.support.fake_runtime_api import ARN, FakeRuntimeApi
from tests.support.recorded import function_url_event, recorded_event

APPS = "tests.support.e2e.lambda_apps"
WRAPPER = Path(aion_core.lambda_runtime.__file__).parent / "exec-wrapper.sh"
GONE = {"message": "Internal Server Error"}
LATE = {"message": "Gateway Timeout"}


@pytest.fixture
def journal() -> list[str]:
    return []


@pytest.fixture
async def gates(journal: list[str]) -> AsyncIterator[Gates]:
    async with Gates(journal) as gates:
        yield gates


@pytest.fixture
async def api(journal: list[str]) -> AsyncIterator[FakeRuntimeApi]:
    async with FakeRuntimeApi(journal) as api:
        yield api


@pytest.fixture
async def runtime(api: FakeRuntimeApi, gates: Gates) -> AsyncIterator[RuntimeProcess]:
    async with running(f"{APPS}:app", api=api.address, gates=gates.address) as runtime:
        yield runtime


async def still_serves(api: FakeRuntimeApi) -> bool:
    answer = await api.invoke(function_url_event("/one_line")).answered()
    return (answer.status, answer.body) == (200, b"hello")


async def test_chunk_is_posted_while_app_runs(api: FakeRuntimeApi, gates: Gates, runtime: RuntimeProcess) -> None:
    invocation = api.invoke(function_url_event("/stream"))
    assert await invocation.chunk(1) == b"data: one\n\n"
    await gates.reached("second")
    assert not invocation.is_answered
    gates.open("second")
    answer = await invocation.answered()
    assert answer.chunks == [
        b'{"statusCode":200,"headers":{"content-type":"text/event-stream"},"cookies":[]}' + bytes(8),
        b"data: one\n\n",
        b"data: two\n\n",
    ]
    assert answer.trailers == {}


async def test_response_follows_streaming_protocol(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    invocation = api.invoke(function_url_event("/one_line"), headers={"Lambda-Runtime-Invocation-Id": "attempt-1"})
    answer = await invocation.answered()
    assert answer.endpoint == "response"
    assert answer.headers == {
        "host": api.address,
        "user-agent": "aion-lambda-runtime",
        "connection": "close",
        "lambda-runtime-function-response-mode": "streaming",
        "transfer-encoding": "chunked",
        "content-type": "application/vnd.awslambda.http-integration-response",
        "trailer": "Lambda-Runtime-Function-Error-Type, Lambda-Runtime-Function-Error-Body",
        "lambda-runtime-invocation-id": "attempt-1",
    }


async def test_app_receives_invocation_context(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    event = function_url_event("/echo", method="POST", body='{"a": 1}', query="x=1&x=2")
    first = json.loads((await api.invoke(event, headers={"Lambda-Runtime-Trace-Id": "Root=1-a"}).answered()).body)
    again = json.loads((await api.invoke(event, headers={"Lambda-Runtime-Trace-Id": ""}).answered()).body)
    assert first == {
        "method": "POST",
        "path": "/echo",
        "query": "x=1&x=2",
        "body": '{"a": 1}',
        "state": {"started": "yes", "loop": first["state"]["loop"]},
        "event_path": "/echo",
        "request_id": "invocation-1",
        "arn": ARN,
        "function": ["agent-api", "7", 1024],
        "log": ["/aws/lambda/agent-api", "2026/03/27/[7]0f1e2d3c4b5a"],
        "has_time": True,
        "trace": "Root=1-a",
        "process": runtime.pid,
        "same_loop": True,
    }
    # The second invocation has the same process and event loop, but its own copy of the lifespan state.
    assert again == first | {"request_id": "invocation-2", "trace": None}


async def test_rest_api_event_is_answered(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    rest = recorded_event("rest_api_v1", path="/echo")
    rest["requestContext"]["path"] = "/prod/echo"
    answer = await api.invoke(rest).answered()
    assert json.loads(answer.body)["path"] == "/echo"
    assert json.loads(json.loads(answer.body)["body"])["message"]["parts"] == [{"text": "Grüße"}]


async def test_app_failure_during_response_is_sent_in_trailers(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    answer = await api.invoke(function_url_event("/midstream_error")).answered()
    assert answer.status == 200
    assert answer.body == b"data: one\n\n"
    assert answer.trailers["lambda-runtime-function-error-type"] == "Runtime.AppFailed"
    assert answer.error == {
        "errorType": "Runtime.AppFailed",
        "errorMessage": "The application failed; the response is not complete.",
        "stackTrace": [],
    }
    assert await still_serves(api)
    # Expect the whole error in one line of the log.
    [story] = map(json.loads, await runtime.logged("the secret reason"))
    assert story["message"] == "Invocation invocation-1: the app failed"
    assert "midstream_error" in story["stackTrace"]
    # Check `level` and `timestamp`, because Lambda reads these fields of each line with LogFormat JSON.
    assert story["level"] == "ERROR"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", story["timestamp"])


@pytest.mark.parametrize(
    "path", ["/early_error", "/announced_error", "/nothing", "/cancels_itself", "/too_many_headers"]
)
async def test_error_before_response_is_reported(api: FakeRuntimeApi, runtime: RuntimeProcess, path: str) -> None:
    answer = await api.invoke(function_url_event(path)).answered()
    headers = {"content-type": "application/json", "x-content-type-options": "nosniff"}
    assert answer.prelude == {"statusCode": 500, "headers": headers, "cookies": []}
    assert json.loads(answer.body) == GONE
    assert b"secret" not in answer.raw
    assert answer.trailers == {}
    assert await still_serves(api)


async def test_unfinished_response_ends_with_error(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    answer = await api.invoke(function_url_event("/unfinished")).answered()
    assert answer.body == b"to be cont"
    assert answer.error["errorType"] == "Runtime.AppFailed"
    assert await still_serves(api)


@pytest.mark.parametrize("name", ["sqs", "eventbridge_schedule"])
async def test_unsupported_lambda_event_is_refused(api: FakeRuntimeApi, runtime: RuntimeProcess, name: str) -> None:
    answer = await api.invoke(recorded_event(name), headers={"Lambda-Runtime-Invocation-Id": "attempt-1"}).answered()
    assert answer.endpoint == "error"
    assert answer.headers["lambda-runtime-function-error-type"] == "Runtime.NotAnHttpEvent"
    assert answer.headers["lambda-runtime-invocation-id"] == "attempt-1"
    assert answer.error["errorType"] == "Runtime.NotAnHttpEvent"
    assert "refused" in answer.error["errorMessage"]
    assert await still_serves(api)


@pytest.mark.parametrize("payload", [b"", b"{", b"\xff\xfe", b"[]", b'"text"', b"1", b"null", b"[" * 100_000])
async def test_invalid_invocation_payload_is_refused(
    api: FakeRuntimeApi, runtime: RuntimeProcess, payload: bytes
) -> None:
    answer = await api.invoke(None, payload=payload).answered()
    assert answer.endpoint == "error"
    assert answer.error["errorType"] == "Runtime.NotAnHttpEvent"
    assert await still_serves(api)


async def test_undecodable_body_is_answered_with_status_400(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    event = recorded_event("rest_api_v1", path="/echo", body="not base64!", isBase64Encoded=True)
    answer = await api.invoke(event).answered()
    assert answer.prelude["statusCode"] == 400
    assert "Encode the body, or set isBase64Encoded to false." in json.loads(answer.body)["message"]
    assert answer.trailers == {}
    await runtime.logged("The body cannot be read")
    assert await still_serves(api)


async def test_response_without_body_still_contains_status_and_headers(
    api: FakeRuntimeApi, runtime: RuntimeProcess
) -> None:
    answer = await api.invoke(function_url_event("/no_content")).answered()
    assert answer.chunks == [b'{"statusCode":204,"headers":{},"cookies":[]}' + bytes(8)]


async def test_empty_write_does_not_end_response_body(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    answer = await api.invoke(function_url_event("/empty_writes")).answered()
    assert answer.chunks[1:] == [b"a", b"b", b"c"]


async def test_cookies_and_repeated_headers_reach_the_client(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    answer = await api.invoke(function_url_event("/cookies")).answered()
    assert answer.prelude == {
        "statusCode": 200,
        "headers": {"vary": "Accept, Origin", "x-name": "café"},
        "cookies": ["a=1; Path=/; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "b=2"],
    }


async def test_next_invocation_begins_after_app_has_returned(
    api: FakeRuntimeApi, gates: Gates, runtime: RuntimeProcess, journal: list[str]
) -> None:
    invocation = api.invoke(function_url_event("/rests_late"))
    following = api.invoke(function_url_event("/one_line"))
    assert (await invocation.answered()).body == b"answered"
    for number in range(20):
        await gates.reached(f"after-{number}")
        gates.open(f"after-{number}")
    await gates.reached("rest")
    assert api.asked == 1
    gates.open("rest")
    assert (await following.answered()).body == b"hello"
    ended, rested, asked = (
        journal.index("invocation-1 ended"),
        journal.index("gate rest opened"),
        len(journal) - 1 - journal[::-1].index("invocation-2 given"),
    )
    assert ended < rested < asked


async def test_next_invocation_waits_for_response(api: FakeRuntimeApi, gates: Gates, runtime: RuntimeProcess) -> None:
    invocation = api.invoke(function_url_event("/leaves_a_task_behind"))
    invocation.hold()
    for number in range(20):
        await gates.reached(f"behind-{number}")
        gates.open(f"behind-{number}")
    assert api.asked == 1
    invocation.read_on()
    assert (await invocation.answered()).body == b"hello"
    assert await still_serves(api)


async def test_runtime_continues_after_lambda_did_not_acknowledge_response(
    api: FakeRuntimeApi, gates: Gates, runtime: RuntimeProcess
) -> None:
    invocation = api.invoke(function_url_event("/leaves_a_task_behind"))
    invocation.hold()
    await invocation.begun()
    await gates.reached("behind-0")
    invocation.break_off()
    assert await still_serves(api)
    assert await runtime.logged("did not acknowledge")


async def test_app_receives_disconnect_after_response(
    api: FakeRuntimeApi, gates: Gates, runtime: RuntimeProcess
) -> None:
    gates.open("listening")
    await api.invoke(function_url_event("/hears_the_end")).answered()
    await api.requested(2)
    runtime.terminate()
    assert await runtime.exit_code() == 0
    assert "heard early: False then: http.disconnect" in runtime.lines


async def test_app_that_sends_after_response_end_does_not_change_response(
    api: FakeRuntimeApi, runtime: RuntimeProcess
) -> None:
    answer = await api.invoke(function_url_event("/says_too_much")).answered()
    assert answer.body == b"hello"
    assert answer.trailers == {}
    assert await still_serves(api)
    assert await runtime.logged("http.response.body while the response is ENDED")


async def test_broken_client_connection_does_not_stop_app(
    api: FakeRuntimeApi, gates: Gates, runtime: RuntimeProcess
) -> None:
    invocation = api.invoke(function_url_event("/runs_unheard"))
    await invocation.chunk(1)
    await gates.reached("broken")
    invocation.break_off()
    gates.open("broken")
    await gates.reached("finished")
    assert api.asked == 1
    gates.open("finished")
    assert await still_serves(api)
    assert await runtime.logged("ran to its end; heard early: False then: http.disconnect")


async def test_fastapi_stream_continues_after_its_connection_breaks(api: FakeRuntimeApi, gates: Gates) -> None:
    async with running("tests.support.e2e.lambda_fastapi_app:app", api=api.address, gates=gates.address) as runtime:
        invocation = api.invoke(function_url_event("/stream"))
        assert await invocation.chunk(1) == b"data: hello\n\n"
        await gates.reached("second")
        invocation.break_off()
        gates.open("second")
        await gates.reached("finished")
        gates.open("finished")
        await gates.reached("background")
        assert api.asked == 1
        gates.open("background")
        await api.requested(2)
        runtime.terminate()
        assert await runtime.exit_code() == 0
        assert "lifespan over" in runtime.lines


async def test_sigterm_ends_an_idle_runtime(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    await api.requested(1)
    runtime.terminate()
    assert await runtime.exit_code() == 0
    assert "lifespan over" in runtime.lines


async def test_sigterm_ends_runtime_during_invocation(
    api: FakeRuntimeApi, gates: Gates, runtime: RuntimeProcess
) -> None:
    invocation = api.invoke(function_url_event("/never_returns"))
    await invocation.chunk(1)
    await gates.reached("never")
    runtime.terminate()
    assert await runtime.exit_code() == 0
    assert (await invocation.answered()).error["errorType"] == "Runtime.OutOfTime"
    assert "lifespan over" in runtime.lines
    assert api.asked == 1


async def test_sigterm_does_not_wait_for_thread(api: FakeRuntimeApi, gates: Gates, runtime: RuntimeProcess) -> None:
    api.invoke(function_url_event("/blocks_a_thread"))
    await gates.reached("in a thread")
    runtime.terminate()
    assert await runtime.exit_code() == 0


async def test_sigterm_ends_runtime_importing_its_app(api: FakeRuntimeApi, gates: Gates) -> None:
    async with running(
        "tests.support.e2e.app_that_imports_slowly:app", api=api.address, gates=gates.address
    ) as runtime:
        await gates.reached("importing")
        runtime.terminate()
        assert await runtime.exit_code() == 0
    assert api.init_error is None


async def test_sigterm_ends_starting_runtime(api: FakeRuntimeApi, gates: Gates) -> None:
    async with running(f"{APPS}:waits_at_start", api=api.address, gates=gates.address) as runtime:
        await gates.reached("starting")
        runtime.terminate()
        assert await runtime.exit_code() == 0
    assert api.asked == 0


async def test_sigterm_does_not_wait_for_hanging_shutdown(api: FakeRuntimeApi, gates: Gates) -> None:
    async with running(f"{APPS}:hangs_at_shutdown", api=api.address, gates=gates.address) as runtime:
        await api.requested(1)
        runtime.terminate()
        assert await runtime.exit_code() == 0


@pytest.mark.parametrize(
    ("app", "error_type", "reason"),
    [
        ("tests.support.e2e.app_that_does_not_import:app", "Runtime.ImportModuleError", "no such model"),
        ("no.such.module:app", "Runtime.ImportModuleError", "No module named"),
        (f"{APPS}:no_such_attribute", "Runtime.ImportModuleError", "no_such_attribute"),
        (APPS, "Runtime.ImportModuleError", APPS),
        ("", "Runtime.ImportModuleError", "handlers.api:app"),
        (f"{APPS}:not_an_app", "Runtime.HandlerNotFound", "cannot be called"),
        (f"{APPS}:fails_to_start", "Runtime.LifespanFailed", "no table"),
        (f"{APPS}:crashes_at_start", "Runtime.LifespanFailed", "no table"),
        (f"{APPS}:is_cancelled_at_start", "Runtime.LifespanFailed", "no table"),
    ],
)
async def test_app_startup_failure_is_reported(
    api: FakeRuntimeApi, tmp_path: Path, app: str, error_type: str, reason: str
) -> None:
    # Create a package `handlers` without the module `api`, so that the runtime does not find its default app.
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "__init__.py").touch()
    path = f"{tmp_path}:{Path.cwd()}"
    async with running(app, api=api.address, environ={"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}) as runtime:
        report = await api.init_failed()
        assert await runtime.exit_code() == 1
    assert report.headers["lambda-runtime-function-error-type"] == error_type
    assert report.headers["content-type"] == "application/vnd.aws.lambda.error+json"
    assert report.error["errorType"] == error_type
    assert report.error["stackTrace"] == []
    assert reason in report.error["errorMessage"]
    [line] = [json.loads(each) for each in runtime.lines if "The app does not start" in each]
    assert (line["level"], line["message"]) == ("ERROR", f"The app does not start. {report.error['errorMessage']}")
    assert api.asked == 0


async def test_app_without_lifespan_is_served(api: FakeRuntimeApi) -> None:
    async with running(f"{APPS}:without_lifespan", api=api.address) as runtime:
        assert (await api.invoke(function_url_event("/")).answered()).body == b"hello"
        await api.requested(2)
        runtime.terminate()
        assert await runtime.exit_code() == 0


async def test_asgi_2_application_gets_status_500_for_each_request(api: FakeRuntimeApi) -> None:
    async with running(f"{APPS}:of_asgi_2", api=api.address):
        for _ in range(2):
            assert (await api.invoke(function_url_event("/")).answered()).status == 500


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"AWS_LAMBDA_RUNTIME_API": ""}, "AWS_LAMBDA_RUNTIME_API"),
        ({"AION_DEADLINE_MARGIN_MS": "3s"}, "AION_DEADLINE_MARGIN_MS"),
    ],
)
async def test_invalid_runtime_setting_is_named_at_start(environ: dict[str, str], named: str) -> None:
    async with running(f"{APPS}:app", api="127.0.0.1:1", environ=environ) as runtime:
        assert await runtime.exit_code() == 1
        assert named in runtime.log


async def test_unreachable_runtime_api_ends_runtime() -> None:
    async with running(f"{APPS}:app", api="127.0.0.1:1") as runtime:
        assert await runtime.exit_code() == 1


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (500, {}),
        (403, {"Lambda-Runtime-Aws-Request-Id": "r", "Lambda-Runtime-Deadline-Ms": "99999999999999"}),
        (200, {}),
        (200, {"Lambda-Runtime-Aws-Request-Id": "r"}),
        (200, {"Lambda-Runtime-Aws-Request-Id": "r", "Lambda-Runtime-Deadline-Ms": "soon"}),
    ],
)
async def test_invalid_answer_to_request_for_next_invocation_ends_runtime(
    api: FakeRuntimeApi, runtime: RuntimeProcess, status: int, headers: dict[str, str]
) -> None:
    api.answer_next(status, headers, b"{}")
    assert await runtime.exit_code() == 1
    assert "next" in runtime.log
    assert "lifespan over" in runtime.lines


@pytest.mark.parametrize("event", [recorded_event("sqs"), function_url_event("/huge"), function_url_event("/one_line")])
async def test_rejected_response_does_not_stop_runtime_loop(
    api: FakeRuntimeApi, runtime: RuntimeProcess, event: dict[str, Any]
) -> None:
    api.invoke(event, headers={"Lambda-Runtime-Aws-Request-Id": "unknown"})
    assert await still_serves(api)
    assert any(line.startswith("unknown") and line.endswith("rejected") for line in api.journal)


async def test_hanging_app_is_stopped_before_deadline(
    api: FakeRuntimeApi, gates: Gates, runtime: RuntimeProcess
) -> None:
    answer = await api.invoke(function_url_event("/never_returns"), deadline_in=7.0).answered()
    assert answer.body == b"data: one\n\n"
    assert answer.error["errorType"] == "Runtime.OutOfTime"
    assert await still_serves(api)
    assert await runtime.logged("the app was stopped")


async def test_app_without_response_is_reported_before_deadline(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    answer = await api.invoke(function_url_event("/never_answers"), deadline_in=6.0).answered()
    assert answer.status == 504
    assert json.loads(answer.body) == LATE
    assert await still_serves(api)


@pytest.mark.parametrize("app", ["blocks", "blocks_after_headers", "blocks_a_connection"])
async def test_blocked_event_loop_does_not_cost_response(
    api: FakeRuntimeApi, runtime: RuntimeProcess, app: str
) -> None:
    """Lambda would stop the process at the deadline, and the client would get an error of API Gateway."""
    invocation = api.invoke(function_url_event(f"/{app}", query="5"), deadline_in=3.0)
    answer = await invocation.answered()
    assert "no longer blocked" not in runtime.log
    assert answer.status == 504
    assert json.loads(answer.body) == LATE
    assert await runtime.logged("blocks the event loop")
    assert await still_serves(api)
    assert not [line for line in api.journal if "rejected" in line or "lost" in line], "only one response is sent"


async def test_stream_of_blocked_event_loop_ends_with_error(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    invocation = api.invoke(function_url_event("/blocks_a_stream", query="8"), deadline_in=4.0)
    answer = await invocation.answered()
    assert "no longer blocked" not in runtime.log
    assert answer.body == b"data: one\n\n"
    assert answer.error["errorType"] == "Runtime.OutOfTime"
    assert await still_serves(api)


async def test_response_is_the_apps_after_short_block(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    answer = await api.invoke(function_url_event("/blocks", query="1"), deadline_in=6.0).answered()
    assert (answer.status, answer.body) == (200, b"hello")
    assert await still_serves(api)


@pytest.mark.deep
async def test_endless_response_is_stopped_before_deadline(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    answer = await api.invoke(function_url_event("/never_stops_sending"), deadline_in=5.0).answered()
    assert answer.error["errorType"] == "Runtime.OutOfTime"
    assert await still_serves(api)


async def test_app_ignoring_deadline_cannot_write_to_next_response(
    api: FakeRuntimeApi, gates: Gates, runtime: RuntimeProcess
) -> None:
    answer = await api.invoke(function_url_event("/refuses_to_stop"), deadline_in=7.0).answered()
    assert answer.error["errorType"] == "Runtime.OutOfTime"
    await gates.reached("still here")
    following = api.invoke(function_url_event("/stream"))
    await gates.reached("second")
    gates.open("still here")
    await gates.reached("spoke up")
    gates.open("second")
    assert (await following.answered()).body == b"data: one\n\ndata: two\n\n"
    assert await runtime.logged("does not stop")


async def test_response_is_stopped_before_deadline_if_nobody_reads_it(
    api: FakeRuntimeApi, runtime: RuntimeProcess
) -> None:
    invocation = api.invoke(function_url_event("/never_stops_sending"), deadline_in=5.0)
    await invocation.begun()
    invocation.hold()
    assert await still_serves(api)
    assert await runtime.logged("did not read the response in time")


async def test_huge_response_is_sent_completely(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    answer = await api.invoke(function_url_event("/huge")).answered()
    assert answer.body == b"x" * 8 * 1024 * 1024 + b"y" * 8 * 1024 * 1024
    assert await still_serves(api)


async def test_exec_wrapper_starts_our_runtime_instead_of_bootstrap(api: FakeRuntimeApi, gates: Gates) -> None:
    assert os.access(WRAPPER, os.X_OK)
    command = [str(WRAPPER), sys.executable, "/var/runtime/bootstrap.py"]
    async with running(f"{APPS}:app", api=api.address, gates=gates.address, command=command) as runtime:
        assert await still_serves(api)
        # SIGTERM reaches our runtime, because the wrapper script replaces its own process by exec.
        runtime.terminate()
        assert await runtime.exit_code() == 0
        assert "lifespan over" in runtime.lines


async def test_exec_wrapper_is_entry_point_of_image(api: FakeRuntimeApi, gates: Gates) -> None:
    """Its argument is then the base image's own entry point, and the runtime's Python is on PATH."""
    command = [str(WRAPPER), "/lambda-entrypoint.sh", "handlers.api.handler"]
    on_path = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    async with running(
        f"{APPS}:app", api=api.address, gates=gates.address, command=command, environ=on_path
    ) as runtime:
        assert await still_serves(api)
        runtime.terminate()
        assert await runtime.exit_code() == 0


@pytest.mark.parametrize(
    "environ",
    [{"AWS_SAM_LOCAL": "true", "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9"}, {}],
    ids=["sam local", "docker run"],
)
async def test_exec_wrapper_runs_original_command_elsewhere(environ: dict[str, str]) -> None:
    command = [str(WRAPPER), sys.executable, "-c", "import sys; print('original', sys.argv[1:])", "a b", "c"]
    async with running(f"{APPS}:app", api=None, command=command, environ=environ) as runtime:
        assert await runtime.exit_code() == 0
        assert runtime.lines == ["original ['a b', 'c']"]
