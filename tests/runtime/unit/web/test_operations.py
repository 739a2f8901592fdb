"""Operations table: one entry adds an operation to each binding, each version and the OpenAPI document."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from a2a.compat.v0_3 import types as v03
from a2a.types import a2a_pb2 as pb
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from aion_core.web.additions import AppAdditions
from aion_core.web.app import build_app
from aion_core.web.app_parts import ServedAgent, SharedServices
from aion_core.web.cards.agent_cards import AgentCards
from aion_core.web.operations import OPERATIONS
from aion_core.web.operations.operation import Doc, HttpRoute, Operation, V03Form
from aion_core.web.rest.v03 import RestV03
from aion_core.web.rest.v1 import RestV1
from aion_core.web.v03.conversion import V03Conversion
from aion_core.web.v03.operations import CONVERSIONS
from scripts.openapi.document import DOCUMENT, SERVED, build_document, rendered, rendered_for_server
from scripts.openapi.examples import RECORDED, recorded
from tests.support.agents.counting import talking
from tests.support.rows import each_row
from tests.support.service import http, parts


async def _echo(services: Any, request: pb.GetTaskRequest, context: Any) -> pb.Task:
    return pb.Task(id=request.id, context_id=services.card.name)


async def _read_echo(request: Any) -> pb.GetTaskRequest:
    return pb.GetTaskRequest(id=request.path_params["id"])


class EchoRequest(v03.GetTaskRequest):
    """Request of the toy operation in v0.3."""

    method: Any = "toy/echo"


ECHO = Operation(
    "Echo",
    pb.GetTaskRequest,
    _echo,
    response=pb.Task,
    routes=(HttpRoute("GET", "/echo/{id}"),),
    v03=V03Form("toy/echo", aliases=("toy/oldEcho",), routes=(HttpRoute("GET", "/v1/echo/{id}"),)),
    doc=Doc("Return the id.", "tasks", result="The id."),
)
ECHO_V03 = V03Conversion(
    EchoRequest,
    lambda request: pb.GetTaskRequest(id=request.params.id),
    lambda task: {"echo": task.id},
    read_http=_read_echo,
)


@each_row(
    ("method", "path", "body", "answer"),
    [
        ("POST", "/", {"method": "Echo", "params": {"id": "t-1"}}, {"id": "t-1", "contextId": "Test"}),
        ("GET", "/echo/t-1", None, {"id": "t-1", "contextId": "Test"}),
        ("GET", "/red/echo/t-1", None, {"id": "t-1", "contextId": "Test"}),
        ("POST", "/", {"method": "toy/echo", "params": {"id": "t-1"}}, {"echo": "t-1"}),
        ("POST", "/", {"method": "toy/oldEcho", "params": {"id": "t-1"}}, {"echo": "t-1"}),
        ("GET", "/v1/echo/t-1", None, {"id": "t-1", "contextId": "Test"}),
    ],
)
async def test_operation_added_to_registry_is_served_by_each_binding(
    monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any, answer: Any
) -> None:
    monkeypatch.setitem(CONVERSIONS, "Echo", ECHO_V03)
    made = parts(talking(1))
    served = {"test": ServedAgent(made.agent, AgentCards.of(made.card))}
    app = build_app(
        SharedServices(made.service, made.lister, made.conversations),
        served,
        additions=AppAdditions(operations=[ECHO]),
    )
    async with http(app) as client:
        request = None if body is None else {"jsonrpc": "2.0", "id": 7, **body}
        response = await client.request(method, path, json=request)
    assert response.status_code == 200
    got = response.json()
    assert (got["result"] if body else got) == answer


def test_each_operation_offered_in_v03_has_conversion_functions() -> None:
    offered = {operation.name for operation in OPERATIONS if operation.v03}
    assert set(CONVERSIONS) == offered, "Add the operation to CONVERSIONS in aion_core/web/v03/operations.py."
    readable = {name for name, conversion in CONVERSIONS.items() if conversion.read_http}
    assert readable == {operation.name for operation in OPERATIONS if operation.v03 and operation.v03.routes}


def test_operation_added_to_registry_is_described_in_openapi_document() -> None:
    document = build_document((*OPERATIONS, ECHO))
    described = document["paths"]["/echo/{id}"]["get"]
    assert described["operationId"] == "Echo"
    assert [parameter["name"] for parameter in described["parameters"] if "name" in parameter] == [
        "id",
        "historyLength",
    ]
    content = described["responses"]["200"]["content"]["application/a2a+json"]
    assert content["schema"] == {"$ref": "#/components/schemas/Task"}


def test_route_without_description_is_refused() -> None:
    with pytest.raises(ValueError, match="Echo has routes"):
        build_document([replace(ECHO, doc=None)])


def test_openapi_document_is_valid_and_current() -> None:
    validate(build_document(), cls=OpenAPIV31SpecValidator)
    assert DOCUMENT.read_text(encoding="utf-8") == rendered(build_document()), "run `make openapi`"
    assert gzip.decompress(SERVED.read_bytes()).decode() == rendered_for_server(build_document()), "run `make openapi`"


def test_openapi_examples_equal_real_responses_of_server() -> None:
    assert json.loads(RECORDED.read_text(encoding="utf-8")) == recorded(), "run `make openapi`"


def test_openapi_examples_match_their_schemas() -> None:
    document = build_document()
    contents = [each for each in _objects(document) if "schema" in each and {"example", "examples"} & each.keys()]
    examples = 0
    for content in contents:
        schema = {**content["schema"], "components": document["components"]}
        validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
        for example in [content.get("example"), *(each["value"] for each in content.get("examples", {}).values())]:
            if example is not None:
                validator.validate(example)
                examples += 1
            if isinstance(example, dict) and "data" in example:
                event = content["schema"]["properties"]["data"]["contentSchema"]
                Draft202012Validator({**event, "components": document["components"]}).validate(
                    json.loads(example["data"])
                )
    assert examples >= 30


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield each object of a document."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(inner)


def test_openapi_document_has_response_example_for_each_operation() -> None:
    for item in build_document()["paths"].values():
        for described in item.values():
            content = next(iter(described["responses"]["200"]["content"].values()))
            shown = "example" in content or len(content.get("examples", ())) > 1
            assert shown, (
                f"{described['operationId']}: add a request to scripts/openapi/examples.py; run `make openapi`."
            )


def test_openapi_document_describes_each_route() -> None:
    described = {
        (path, method) for path, item in build_document()["paths"].items() for method in item if method.islower()
    }
    served = {
        (path.replace(":text}", "}"), method.lower())
        for path, by_method in RestV1.endpoints(OPERATIONS).items()
        if not path.startswith("/{tenant}")
        for method in by_method
    }
    assert described == served


def test_each_required_request_body_has_openapi_example() -> None:
    """The API page generates its curl commands from these examples."""
    bodies = {
        described["operationId"]: described["requestBody"]
        for item in build_document()["paths"].values()
        for described in item.values()
        if "requestBody" in described
    }
    required = {name: body["content"]["application/a2a+json"] for name, body in bodies.items() if body["required"]}
    assert [name for name, content in required.items() if "example" not in content] == []


def test_specific_paths_are_routed_before_general_paths() -> None:
    for binding in (RestV1, RestV03):
        paths = [path for path in binding.endpoints(OPERATIONS) if "{tenant}" not in path]
        assert [path for path in paths if ":text}" in path] == paths[-1:]
        actions = [paths.index(path) for path in paths if path.endswith(("}:cancel", "}:subscribe"))]
        assert max(actions) < min(paths.index(path) for path in paths if path.endswith("/tasks/{id}"))
