"""Answer of 50 MB: it is stored in the bucket, and the next turn of the conversation still works."""

from pathlib import Path

import httpx
import pytest

from tests.support.server import aion_dev, serving
from tests.support.service import send

CONFIG = Path(__file__).parents[2] / "support" / "e2e" / "agents" / "odd.yaml"


@pytest.mark.deep
def test_fifty_megabyte_answer_is_served() -> None:
    with serving(aion_dev("--config", str(CONFIG))) as server:
        first = httpx.post(server.url, json=send("large", message_id="m-1", contextId="c"), timeout=120).json()
        task = first["result"]["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert len(task["status"]["message"]["parts"][0]["text"]) == 50 * 1024 * 1024
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task["id"]}}
        assert httpx.post(server.url, json=body, timeout=120).json()["result"] == task
        second = httpx.post(server.url, json=send("small", message_id="m-2", contextId="c"), timeout=120).json()
        assert second["result"]["task"]["status"]["message"]["parts"] == [{"text": "small"}]
