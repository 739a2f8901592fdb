"""Tenants: tasks of one tenant do not exist in another, in each binding."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aion_core.auth.tenants import owner_in
from tests.runtime.unit.web.rest_requests import body, fields, refused
from tests.support.agents.scripted import AskingAgent
from tests.support.rows import each_row
from tests.support.service import http, parts, send


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with http(parts(AskingAgent()).app()) as client:
        yield client


async def rpc(client: httpx.AsyncClient, method: str, **params: Any) -> dict[str, Any]:
    answer = await client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    answered: dict[str, Any] = answer.json()
    return answered


async def task_in(client: httpx.AsyncClient, tenant: str, **message: Any) -> dict[str, Any]:
    """Send a message in the tenant and return its task."""
    path = f"/{tenant}/message:send" if tenant else "/message:send"
    task: dict[str, Any] = (await client.post(path, json=body(**message))).json()["task"]
    return task


@pytest.mark.parametrize("own", ["", "red"])
@pytest.mark.parametrize("other", ["blue", "", "RED", "red."])
async def test_task_of_other_tenant_is_not_found(client: httpx.AsyncClient, own: str, other: str) -> None:
    """Request another tenant's task: the response has the same bytes as for a missing task."""
    if own == other:
        return
    task = await task_in(client, own)
    there = f"/{other}" if other else ""
    for method, rest in (("GET", ""), ("POST", ":cancel"), ("POST", ":subscribe"), ("GET", ":subscribe")):
        foreign = await client.request(method, f"{there}/tasks/{task['id']}{rest}")
        unknown = await client.request(method, f"{there}/tasks/nope{rest}")
        refused(foreign, 404, "TASK_NOT_FOUND")
        assert foreign.content == unknown.content
    for operation in ("GetTask", "CancelTask", "SubscribeToTask"):
        foreign_rpc = await rpc(client, operation, tenant=other, id=task["id"])
        assert foreign_rpc["error"]["code"] == -32001
        assert foreign_rpc == await rpc(client, operation, tenant=other, id="nope")
    answer = {**body(message_id="m-2", taskId=task["id"]), "tenant": other}
    refused(await client.post("/message:send", json=answer), 404, "TASK_NOT_FOUND")
    assert (await client.get(f"{there}/tasks")).json()["totalSize"] == 0
    assert (await client.get(f"{there}/tasks?contextId={task['contextId']}")).json()["tasks"] == []
    # The requests of the other tenant have not changed the task.
    own_path = f"/{own}/tasks" if own else "/tasks"
    assert (await client.get(f"{own_path}/{task['id']}")).json() == task
    assert (await rpc(client, "GetTask", id=task["id"], tenant=own))["result"] == task


async def test_tenants_may_use_equal_context_and_message_ids(client: httpx.AsyncClient) -> None:
    """Send one message in two tenants: the second is neither a repeat nor an answer to the first one's question."""
    tasks = [await task_in(client, tenant, contextId="c-1") for tenant in ("", "red", "blue")]
    assert len({task["id"] for task in tasks}) == 3
    again = await rpc(client, "SendMessage", **body(contextId="c-1"), tenant="red")
    assert again["result"]["task"]["id"] == tasks[1]["id"]


async def test_page_token_of_another_tenant_is_refused(client: httpx.AsyncClient) -> None:
    for number in range(2):
        await task_in(client, "red", message_id=f"m-{number}", contextId=f"c-{number}")
        await task_in(client, "blue", message_id=f"m-{number}", contextId=f"c-{number}")
    token = (await client.get("/red/tasks?pageSize=1")).json()["nextPageToken"]
    refused(await client.get(f"/blue/tasks?pageSize=1&pageToken={token}"), 400, "INVALID_PARAMS", "pageToken")


async def test_tenant_is_read_from_path_or_params(client: httpx.AsyncClient) -> None:
    task = await task_in(client, "red")
    for path in ("/red/tasks", "/tasks?tenant=red", "/red/tasks?tenant=red", "/agents/test/red/tasks"):
        assert [listed["id"] for listed in (await client.get(path)).json()["tasks"]] == [task["id"]], path


async def test_different_tenants_in_path_and_params_are_refused(client: httpx.AsyncClient) -> None:
    for answer in (
        await client.post("/red/message:send", json={**body(), "tenant": "blue"}),
        await client.get("/red/tasks?tenant=blue"),
        await client.post("/red/tasks/t-1:cancel", json={"tenant": "blue"}),
    ):
        assert fields(refused(answer, 400, "INVALID_PARAMS", "tenant")) == ["tenant"]


@each_row("tenant", ["a b", "a/b", "x" * 129, "\u00e9", "v1", "Console", "..", "a\0", 5, []])
async def test_invalid_tenant_is_refused(client: httpx.AsyncClient, tenant: Any) -> None:
    """Use the name of another path as tenant, which JSON-RPC must refuse too."""
    error = (await rpc(client, "ListTasks", tenant=tenant))["error"] if tenant != [] else None
    if error is None:
        error = (await rpc(client, "GetTask", id="t-1", tenant=tenant))["error"]
    assert error["code"] == -32602
    assert error["data"][1]["fieldViolations"][0]["field"] == "tenant"


async def test_v03_request_ignores_tenant(client: httpx.AsyncClient) -> None:
    asked = send(method="message/send")
    asked["params"]["tenant"] = "red"
    task = (await client.post("/", json=asked)).json()["result"]
    assert (await client.get(f"/tasks/{task['id']}")).status_code == 200
    assert (await client.get(f"/red/tasks/{task['id']}")).status_code == 404


TEXTS = st.text(max_size=8)


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_each_pair_of_caller_and_tenant_has_different_owner_id(
    one: str, in_one: str, other: str, in_other: str
) -> None:
    if (one, in_one) != (other, in_other):
        assert owner_in(one, in_one) != owner_in(other, in_other)
    assert owner_in(one, "") == one
