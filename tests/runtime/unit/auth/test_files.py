"""Stored files: responses to the owner include them, without URLs of the bucket."""

import base64
import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import boto3
import httpx
import pytest
from botocore.signers import RequestSigner
from starlette.types import ASGIApp

from aion_tools.stack.stack import LocalStack
from tests.runtime.unit.auth.id_requests import HOOK, answered, requests
from tests.support.asgi import ask
from tests.support.issuer import Issuer

GRAPH = """
from typing import Any

from a2a.types.a2a_pb2 import Message, Part, Role
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


class FileState(MessagesState):
    a2a_inbox: Any
    a2a_outbox: Any


async def act(state):
    interrupt("really?")
    return {"a2a_outbox": state["a2a_inbox"].message}


graph = StateGraph(FileState).add_node("act", act).add_edge(START, "act")
"""

AION_YAML = """
aion:
  security:
    schemes:
%s
  agents:
    one:
      path: files_agent.py:graph
      capabilities: {extended_agent_card: true}
      extended_card: {description: More.}
"""

FILE = base64.b64encode(random.Random(7).randbytes(50_000)).decode()
"""File that is stored in the bucket, because it is large and incompressible."""

ENDS = {"SendMessage", "SendStreamingMessage", "CancelTask", "SubscribeToTask"}
"""Operations after which the task is no longer interrupted."""

OPENS = ("X-Amz-", "Signature=", "AWSAccessKeyId", "amazonaws.com", "s3://")
"""Parts of presigned URLs and bucket URLs."""


@pytest.fixture
def app(api_function: Callable[[str, str, str], ASGIApp]) -> ASGIApp:
    return api_function("files_agent", GRAPH, AION_YAML)


def objects(bucket: str) -> dict[str, int]:
    """Return the sizes of the objects in the bucket."""
    s3: Any = boto3.client("s3")
    return {found["Key"]: found["Size"] for found in s3.list_objects_v2(Bucket=bucket).get("Contents", [])}


@pytest.mark.deep
@pytest.mark.parametrize("old_binding", ["JSON-RPC", "REST"])
async def test_responses_contain_no_presigned_s3_url(
    app: ASGIApp, issuer: Issuer, moto: LocalStack, monkeypatch: pytest.MonkeyPatch, old_binding: str
) -> None:
    """Each response has the file's content, not its URL in the bucket. `old_binding` is the binding tested in v0.3."""
    signed: list[str] = []
    real = RequestSigner.generate_presigned_url

    def presigns(self: RequestSigner, *given: Any, **more: Any) -> Any:
        signed.append(str(given))
        return real(self, *given, **more)

    monkeypatch.setattr(RequestSigner, "generate_presigned_url", presigns)
    bucket = moto.environment("ApiFunction")["AION_BUCKET"]
    boto3.client("s3").generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "x"})
    assert len(signed) == 1, "the spy records signing"
    before = objects(bucket)
    headers = {"authorization": f"Bearer {issuer.token(sub='alice')}", "content-type": "application/json"}
    parts = [{"text": "this file"}, {"raw": FILE, "filename": "a.bin", "mediaType": "application/octet-stream"}]

    async def rpc(method: str, **params: Any) -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        return await ask(app, "POST", "/", headers, json.dumps(body).encode())

    answers: list[httpx.Response] = []
    task: dict[str, Any] | None = None
    # Leave out the paths of tenants, because the operations are the same within a tenant.
    chosen = [each for each in requests() if "{tenant}" not in each.path and each.old == (each.binding == old_binding)]
    for request in chosen:
        if request.names("task"):
            if task is None:
                message = {"messageId": f"m-{len(answers)}", "role": "ROLE_USER", "parts": parts}
                answers.append(await rpc("SendMessage", message=message))
                task = answers[-1].json()["result"]["task"]
            answers.append(await rpc("CreateTaskPushNotificationConfig", taskId=task["id"], id="c-1", url=HOOK))
        made = {"task": task["id"], "context": task["contextId"]} if task and request.names("task") else {}
        method, target, body = request.to(**made)
        cancel = partial(rpc, "CancelTask", id=made.get("task", ""))
        answers.append(await answered(request, partial(ask, app, method, target, headers, body), cancel))
        assert answers[-1].status_code < 400, (request.name, answers[-1].text[:500])
        if request.operation in ENDS:
            task = None
    large = [size for key, size in objects(bucket).items() if key not in before]
    assert max(large, default=0) > 30_000, "the file is stored in the bucket"
    assert sum(FILE in answer.text for answer in answers) > 10, "the responses include the file"
    for answer in answers:
        everything = answer.text.replace(FILE, "") + str(answer.headers)
        assert not [sign for sign in (*OPENS, bucket) if sign in everything], answer.text[:500]
        assert not 300 <= answer.status_code < 400
    assert len(signed) == 1, "no URL was signed"
