"""Isolation of contexts, page tokens and tenants. Ids of other callers: see test_foreign_ids."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tests.runtime.unit.auth.guarded import guarded, jwt_scheme
from tests.support.issuer import Issuer
from tests.support.rows import each_row
from tests.support.service import http, send


@pytest.fixture
def app(tmp_path: Path, issuer: Issuer) -> FastAPI:
    return guarded(tmp_path, jwt_scheme(issuer))


async def of_bob(client: httpx.AsyncClient, issuer: Issuer) -> dict[str, Any]:
    """Finish a task as Bob and return it; from then on the client has Alice's token."""
    client.headers["Authorization"] = f"Bearer {issuer.token(sub='bob')}"
    task: dict[str, Any] = (await client.post("/", json=send("a secret of Bob's"))).json()["result"]["task"]
    assert (await client.get(f"/tasks/{task['id']}")).status_code == 200
    client.headers["Authorization"] = f"Bearer {issuer.token(sub='alice')}"
    return task


async def test_page_token_of_another_caller_is_refused(app: FastAPI, issuer: Issuer) -> None:
    async with http(app) as client:
        client.headers["Authorization"] = f"Bearer {issuer.token(sub='bob')}"
        for n in range(2):
            await client.post("/", json=send(message_id=f"m-{n}"))
        token = (await client.get("/tasks?pageSize=1")).json()["nextPageToken"]
        assert token
        client.headers["Authorization"] = f"Bearer {issuer.token(sub='alice')}"
        refused = await client.get("/tasks", params={"pageToken": token})
        assert (refused.status_code, refused.json()["error"]["details"][0]["reason"]) == (400, "INVALID_PARAMS")


async def test_task_is_readable_only_with_tokens_of_its_subject(app: FastAPI, issuer: Issuer) -> None:
    async with http(app) as client:
        bobs = (await of_bob(client, issuer))["id"]
        issuer.add("k-2", "RS256")
        for token, status in (
            (issuer.token(sub="bob", scope="x"), 200),
            (issuer.token(sub="Bob"), 404),
            (issuer.token(sub="bob "), 404),
        ):
            answer = await client.get(f"/tasks/{bobs}", headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == status


TENANT = {"tenant_claim": "tid"}


async def test_token_of_one_tenant_cannot_reach_another_tenant(tmp_path: Path, issuer: Issuer) -> None:
    async with http(guarded(tmp_path, jwt_scheme(issuer, **TENANT))) as client:
        client.headers["Authorization"] = f"Bearer {issuer.token(tid='red')}"
        body = send()
        task = (await client.post("/", json=body)).json()["result"]["task"]["id"]
        for path in (f"/tasks/{task}", f"/red/tasks/{task}", f"/v1/tasks/{task}"):
            assert (await client.get(path)).status_code == 200, path
        for method, params in (("GetTask", {"id": task}), ("ListTasks", {}), ("SendMessage", body["params"])):
            in_blue, in_red = (
                {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "tenant": tenant}}
                for tenant in ("blue", "red")
            )
            error = (await client.post("/", json=in_blue)).json()["error"]
            assert error["code"] == -32001, method
            assert error["message"].startswith("Task not found. These credentials are for another tenant"), method
            assert "result" in (await client.post("/", json=in_red)).json()
        for path in (f"/blue/tasks/{task}", "/blue/tasks", "/blue/extendedAgentCard"):
            assert (await client.get(path)).status_code == 404, path
        assert (await client.post("/blue/message:send", json=body["params"])).status_code == 404
        # The same subject in another tenant is another owner.
        client.headers["Authorization"] = f"Bearer {issuer.token(tid='blue')}"
        assert (await client.get(f"/tasks/{task}")).status_code == 404
        assert (await client.get("/tasks")).json()["totalSize"] == 0


@each_row("claim", [None, "", 7, ["red"], {"id": "red"}, "../red", "red blue", "r" * 129, "Tasks", "red\n", "\ud800"])
async def test_token_without_usable_tenant_claim_is_refused(
    tmp_path: Path, issuer: Issuer, claim: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with http(guarded(tmp_path, jwt_scheme(issuer, **TENANT))) as client:
        client.headers["Authorization"] = f"Bearer {issuer.token(tid=claim)}"
        assert (await client.get("/tasks")).status_code == 401
        assert "its tenant claim is no tenant name" in caplog.text


async def test_caller_who_chooses_tenant_sees_only_that_tenants_tasks(app: FastAPI, issuer: Issuer) -> None:
    async with http(app) as client:
        bobs = await of_bob(client, issuer)
        client.headers["Authorization"] = f"Bearer {issuer.token(sub='bob')}"
        assert (await client.get(f"/red/tasks/{bobs['id']}")).status_code == 404
        task = (await client.post("/red/message:send", json=send()["params"])).json()["task"]["id"]
        assert (await client.get(f"/red/tasks/{task}")).status_code == 200
        client.headers["Authorization"] = f"Bearer {issuer.token(sub='alice')}"
        assert (await client.get(f"/red/tasks/{task}")).status_code == 404
