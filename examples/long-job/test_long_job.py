"""The job with short steps, twice in one conversation."""

from pathlib import Path

import pytest

from aion_core.testing import serve


async def test_job_reports_each_step_and_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_STEPS", "4")
    monkeypatch.setenv("JOB_STEP_SECONDS", "0")
    async with serve(Path(__file__).with_name("aion.yaml")) as client:
        first = await client.ask("Begin.")
        second = await client.ask("Again.", context_id=first.context_id)
    for reply in (first, second):
        assert (reply.state, reply.text) == ("completed", "Done: 4 steps.")
        steps = [
            event.status_update.metadata["done"] for event in reply.events if "done" in event.status_update.metadata
        ]
        assert steps == [1, 2, 3, 4]
