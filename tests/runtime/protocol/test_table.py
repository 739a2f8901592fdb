"""Each row of the protocol table, in each version and binding of its operation; each operation has rows."""

import gzip
import json
import re
from dataclasses import replace

import pytest

from aion_core.protocol.types import AgentExtension
from aion_core.web.operations import OPERATIONS
from aion_core.web.rest.v03 import RestV03
from aion_core.web.rest.v1 import RestV1
from tests.runtime.protocol.answers import NO_EXTENSION, NOT_FOUND, VERSION, Error, check_refusal, gist
from tests.runtime.protocol.dialects import DIALECTS, REST_V03, REST_V1, RPC_V03, Dialect, RpcDialect, Sent
from tests.runtime.protocol.served import ServedTasks
from tests.runtime.protocol.table import (
    CREATE,
    DELETE,
    FREE_IDS,
    GET,
    HOOK,
    ROWS,
    SEND,
    STREAM,
    ProtocolRow,
)
from tests.support.asgi import AsgiAnswer
from tests.support.rows import each_row

FIRST = {row.operation: row for row in reversed(ROWS) if isinstance(row.gives, str)}
"""A row for each operation, preferably a successful one."""


each_operation = pytest.mark.parametrize(
    ("dialect", "operation"),
    [
        pytest.param(dialect, operation, id=f"{dialect.name}, {operation}")
        for dialect in DIALECTS
        for operation, row in FIRST.items()
        if dialect.request(operation, row.params) is not None
    ],
)


@each_operation
@each_row("row", ROWS)
async def test_server_responds_as_each_row_of_protocol_table_states(
    dialect: Dialect, operation: str, row: ProtocolRow
) -> None:
    if row.operation != operation or dialect.name in row.not_in or dialect.request(operation, row.params) is None:
        return
    served = ServedTasks(**row.where)
    params = await served.filled(row.params)
    sent = dialect.request(row.operation, params)
    assert sent is not None
    answer = await served.ask(dialect, sent)
    expected = row.but.get(dialect.name, row.gives)
    if isinstance(expected, Error):
        check_refusal(dialect, answer, expected)
    else:
        assert re.sub(r"(artifact )+", "artifact ", gist(row.operation, dialect, answer)) == expected
    await served.rest()


@each_row("config_id", [*FREE_IDS, "a/b c%ü:x", "mine/", "..", "a//b", "%2F", "a\nb\n", "?x=1"])
@each_row("dialect", DIALECTS)
async def test_push_config_id_may_be_any_text(dialect: Dialect, config_id: str) -> None:
    """A config's id has the rule of messageId and contextId, also in a path, where clients percent-encode it."""
    served = ServedTasks()
    about = {"taskId": (await served.filled({"taskId": "<told>"}))["taskId"], "id": config_id}

    async def ask(operation: str, **more: str) -> AsgiAnswer:
        sent = dialect.request(operation, {**about, **more})
        assert sent is not None
        return await served.ask(dialect, sent)

    for _ in range(2):
        created = await ask(CREATE, url=HOOK)
        assert gist(CREATE, dialect, created) == gist(GET, dialect, await ask(GET)) == f"config {config_id} of {HOOK}"
    assert gist(DELETE, dialect, await ask(DELETE)) == "nothing"
    check_refusal(dialect, await ask(GET), NOT_FOUND)
    await served.rest()


async def first(served: ServedTasks, dialect: Dialect, operation: str) -> Sent:
    sent = dialect.request(operation, await served.filled(FIRST[operation].params))
    assert sent is not None
    return sent


@each_operation
async def test_only_matching_or_omitted_protocol_version_is_accepted(dialect: Dialect, operation: str) -> None:
    """The method's name or the path implies a version; a version in the header or the query must match it."""
    served = ServedTasks(**FIRST[operation].where)
    sent = await first(served, dialect, operation)
    other = "0.3" if dialect.version == "1.0" else "1.0"
    for contradicts in (other, "9.9", "0", "2", "abc", "1.1"):
        check_refusal(dialect, await served.ask(dialect, sent, **{"a2a-version": contradicts}), VERSION)
        query = f"{sent.target}{'&' if '?' in sent.target else '?'}A2A-Version={contradicts}"
        check_refusal(dialect, await served.ask(dialect, replace(sent, target=query)), VERSION)
    whole = {"a2a-version": "1"} if dialect.version == "1.0" else {}
    for states in (
        {},
        whole,
        {"a2a-version": dialect.version},
        {"a2a-version": f"{dialect.version}.7"},
        {"a2a-version": ""},
    ):
        answer = await served.ask(dialect, sent, **states)
        # Accept a refusal if an earlier request of this loop has already ended the task.
        assert answer.status == 200 or operation in {"CancelTask", "SubscribeToTask"}
        assert b"VERSION_NOT_SUPPORTED" not in answer.body, states
    await served.rest()


URI = "https://example.com/extensions/needed"


@each_operation
async def test_request_must_declare_required_extension(dialect: Dialect, operation: str) -> None:
    """Omit the extension: error -32008. Declare it: the response lists it as active (A2A 3.2.6, 4.6)."""
    where = {**FIRST[operation].where}
    where["described"] = {**where.get("described", {}), "extensions": [AgentExtension(uri=URI, required=True)]}
    header = "a2a-extensions" if dialect.version == "1.0" else "x-a2a-extensions"
    served = ServedTasks(declared=URI, **where)
    sent = await first(served, dialect, operation)
    if operation != "GetExtendedAgentCard":  # clients read the required extensions in the card
        check_refusal(dialect, await served.ask(dialect, sent), NO_EXTENSION)
        check_refusal(dialect, await served.ask(dialect, sent, **{header: "https://example.com/another"}), NO_EXTENSION)
    answer = await served.ask(dialect, sent, **{header: f"https://example.com/another, {URI}"})
    assert answer.status == 200
    assert b"EXTENSION_SUPPORT_REQUIRED" not in answer.body
    assert answer.headers[header] == URI
    await served.rest()


async def test_protocol_table_covers_each_operation() -> None:
    """Each operation that the server offers has rows in the protocol table, and each row has an operation."""
    unknown = RpcDialect().request("Nope", {})
    assert unknown is not None
    served, operations = ServedTasks(), {row.operation for row in ROWS}
    sentence = json.loads((await served.ask(RpcDialect(), unknown)).body)["error"]["message"]
    methods = set(sentence.partition("This server has ")[2].rstrip(".").replace(", and v0.3's ", ", ").split(", "))
    tested = operations | {RPC_V03[operation] for operation in operations if operation in RPC_V03}
    assert methods == tested, "Add the operation to NAMES in tests/runtime/protocol/dialects.py, and rows to table.py."
    for operation in operations:
        gives = {type(row.gives) for row in ROWS if row.operation == operation}
        assert gives == {str, Error}, f"{operation} needs a row with a response, and one with an error."


def test_protocol_table_covers_each_path() -> None:
    """Each path and method of both HTTP+JSON bindings belongs to an operation in the table, also below a tenant."""
    named = {(method, path) for paths in (REST_V1, REST_V03) for method, path in paths.values()}
    for binding in (RestV1, RestV03):
        served = {(method, path) for path, by_method in binding.endpoints(OPERATIONS).items() for method in by_method}
        served = {(method, re.sub(r"^/\{tenant\}", "", path)) for method, path in served}
        for method, path in served:
            assert (method, path) in ALSO or any(
                (method, re.sub(r"\{.*?\}", "…", path)) == (of, re.sub(r"\{.*?\}", "…", known)) for of, known in named
            ), f"{method} {path}: add the operation to NAMES in tests/runtime/protocol/dialects.py."


ALSO = {
    ("GET", "/tasks/{id}:subscribe"),
    ("GET", "/v1/tasks/{id}:subscribe"),
    ("GET", "/v1/agent/authenticatedExtendedCard"),
}
"""Further routes of the operations."""


@pytest.mark.parametrize("path", ["/tasks/{id}:subscribe", "/v1/tasks/{id}:subscribe"])
async def test_subscribe_to_task_over_rest_accepts_get_method(path: str) -> None:
    """The specification's text says POST and its proto file says GET, so the server accepts GET too."""
    dialect = DIALECTS[3] if path.startswith("/v1") else DIALECTS[2]
    served = ServedTasks()
    task = await served.prepare("working")
    answer = await served.ask(dialect, Sent("GET", path.replace("{id}", task["id"])))
    assert gist("SubscribeToTask", dialect, answer).startswith("task:working")
    assert gist("SubscribeToTask", dialect, answer).endswith("status:completed")
    await served.rest()


TRANSPORT: list[tuple[str, dict[str, str], bytes, int]] = [
    ("a body in gzip", {"content-encoding": "gzip"}, gzip.compress(b" " * 50_000_000), 415),
    ("a body in what nobody knows", {"content-encoding": "x-mine"}, b"{}", 415),
    ("a body beyond the limit", {}, b'{"x": "' + b"x" * 5 * 1024 * 1024 + b'"}', 413),
]


@each_row(("headers", "body", "status"), [row[1:] for row in TRANSPORT])
@each_row("operation", [SEND, STREAM])
@each_row("dialect", DIALECTS)
async def test_refused_request_body_has_expected_http_status(
    dialect: Dialect, operation: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    """Send a body that the server refuses before it decompresses or parses the body."""
    served = ServedTasks()
    sent = await first(served, dialect, operation)
    answer = await served.ask(dialect, replace(sent, body=body), **headers)
    assert answer.status == status
    told = json.loads(answer.body)
    message = told["message"] if dialect.name == "HTTP+JSON 0.3" else told["error"]["message"]
    assert len(message) > 20


@each_row("accept", ["application/json", "text/plain", "*/*", "", "no type at all"])
@each_row("dialect", DIALECTS)
async def test_stream_ignores_accept_header(dialect: Dialect, accept: str) -> None:
    """Only the method decides that the response is a stream; the header `Accept` has no effect."""
    served = ServedTasks()
    answer = await served.ask(dialect, await first(served, dialect, STREAM), accept=accept)
    assert gist(STREAM, dialect, answer) == FIRST[STREAM].gives


@each_row("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
@each_row("dialect", DIALECTS)
async def test_unsupported_http_method_gets_status_405(dialect: Dialect, method: str) -> None:
    """Expect the allowed methods in the response's header Allow (A2A 11)."""
    served = ServedTasks()
    answer = await served.ask(dialect, replace(await first(served, dialect, SEND), method=method))
    assert answer.status == 405
    assert "POST" in answer.headers["allow"]
