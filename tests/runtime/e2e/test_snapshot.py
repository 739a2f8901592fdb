"""SnapStart: the runtime process before a snapshot and after a restore, against an HTTP server with the Runtime API."""

import random

from tests.support.e2e.runtime_process import running
from tests.support.fake_runtime_api import FakeRuntimeApi
from tests.support.recorded import function_url_event

APPS = "tests.support.e2e.lambda_apps"
SNAP_START = {"AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"}


async def test_restore_hooks_run_before_first_request() -> None:
    async with FakeRuntimeApi() as api, running(f"{APPS}:restored", api=api.address, environ=SNAP_START):
        await api.until(lambda: "restore/next" in api.journal)
        assert api.asked == 0
        api.restore()
        answer = await api.invoke(function_url_event("/")).answered()
    restores, number = answer.body.decode().split()
    assert restores == "1"
    # Expect another number than the seed 1 gives: each restored copy must seed the random generator anew.
    assert number != str(random.Random(1).random())


async def test_failed_hook_after_restore_ends_environment() -> None:
    async with (
        FakeRuntimeApi() as api,
        running(f"{APPS}:fails_after_restore", api=api.address, environ=SNAP_START) as runtime,
    ):
        api.restore()
        assert await runtime.exit_code() == 1
    assert api.restore_error is not None
    assert api.restore_error.error["errorType"] == "Runtime.AfterRestoreError"
    assert api.asked == 0


async def test_runtime_without_snapstart_does_not_request_restore() -> None:
    async with FakeRuntimeApi() as api, running(f"{APPS}:restored", api=api.address):
        answer = await api.invoke(function_url_event("/")).answered()
    assert answer.body.decode() == f"0 {random.Random(1).random()}"
    assert "restore/next" not in api.journal
