"""Protocol through the buffered handler, as a client of `sam local start-api` gets it, in each version and binding."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.runtime.protocol.answers import Error, check_refusal, events_of, gist, result_of
from tests.runtime.protocol.dialects import DIALECTS, Dialect, Sent
from tests.runtime.protocol.hostile_bodies import RAW, cost_of, hostile_app, hostile_bodies
from tests.runtime.protocol.served import ServedTasks
from tests.runtime.protocol.table import REST, ROWS, SEND, STREAM, ProtocolRow, in_parts, message
from tests.support.asgi import ask
from tests.support.entrypoints import SAM_LOCAL, sam_event, sam_local
from tests.support.recorded import rest_api_event
from tests.support.rows import each_row

base64_event = partial(rest_api_event, domain=SAM_LOCAL)
"""Function that makes an event whose body is base64, as API Gateway does for all media types."""

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


def rows() -> Iterator[tuple[Dialect, ProtocolRow]]:
    """Generate a row with a response and one with an error of each operation and dialect, and all sends of HTTP+JSON."""
    for dialect in DIALECTS:
        known: set[tuple[str, type]] = set()
        for row in ROWS:
            expected = row.but.get(dialect.name, row.gives)
            kind = row.operation, type(expected)
            if dialect.name in row.not_in or dialect.request(row.operation, row.params) is None:
                continue
            if kind not in known or (dialect.name == REST and row.operation == SEND):
                known.add(kind)
                yield dialect, row


@each_row(("dialect", "row"), rows())
async def test_buffered_response_is_as_protocol_table_states(dialect: Dialect, row: ProtocolRow) -> None:
    served = ServedTasks(behind=sam_local, **row.where)
    sent = dialect.request(row.operation, await served.filled(row.params))
    assert sent is not None
    answer = await served.ask(dialect, sent)
    expected = row.but.get(dialect.name, row.gives)
    if isinstance(expected, Error):
        check_refusal(dialect, answer, expected)
    else:
        assert re.sub(r"(artifact )+", "artifact ", gist(row.operation, dialect, answer)) == expected
    await served.rest()


def sent_by(dialect: Dialect, operation: str, params: Any) -> Sent:
    sent = dialect.request(operation, params)
    assert sent is not None
    return sent


@each_dialect
async def test_buffered_response_contains_file_and_its_name(dialect: Dialect) -> None:
    content = base64.b64encode(bytes(range(256))).decode()
    file = {"raw": content, "filename": "Grüße.png", "mediaType": "image/png"}
    served = ServedTasks(behind=sam_local)
    answer = await served.ask(dialect, sent_by(dialect, SEND, in_parts({"text": "look"}, file)))
    told = json.dumps(result_of(dialect, answer), ensure_ascii=False)
    assert content in told
    assert "Grüße.png" in told


SNOWMEN = "\N{SNOWMAN}" * (1024 * 1024 // 3)
"""Text of 1 MB. Lambda's limit counts six bytes for each character, twice its bytes."""


@each_dialect
async def test_buffered_response_above_6_mb_names_history_length(dialect: Dialect) -> None:
    """Echo the text: the client's message, the answer and its place in the history are together too large."""
    served = ServedTasks(behind=sam_local)
    answer = await served.ask(dialect, sent_by(dialect, SEND, in_parts({"text": SNOWMEN})))
    assert answer.status == 500
    assert "historyLength" in json.loads(answer.body)["message"]


@each_dialect
async def test_buffered_response_contains_whole_text_of_1_mb(dialect: Dialect) -> None:
    """The text comes back in the answer and its place in the history; its bytes are three times its characters."""
    served = ServedTasks(behind=sam_local)
    params = {**in_parts({"text": SNOWMEN}), "configuration": {"historyLength": 1}}
    answer = await served.ask(dialect, sent_by(dialect, SEND, params))
    assert json.dumps(result_of(dialect, answer), ensure_ascii=False).count(SNOWMEN) == 2
    assert int(answer.headers["content-length"]) == len(answer.body)
    streamed = await served.ask(dialect, sent_by(dialect, STREAM, message(messageId="s", parts=[{"text": SNOWMEN}])))
    assert json.dumps(events_of(dialect, streamed), ensure_ascii=False).count(SNOWMEN) == 2


@each_dialect
async def test_buffered_stream_is_whole_at_the_end(dialect: Dialect) -> None:
    """Subscribe to a working task: the response has all events up to its end."""
    served = ServedTasks(behind=sam_local)
    task = await served.prepare("working")
    answer = await served.ask(dialect, sent_by(dialect, "SubscribeToTask", {"id": task["id"]}))
    summary = gist("SubscribeToTask", dialect, answer)
    assert summary.startswith("task:working")
    assert summary.endswith("status:completed")


@each_dialect
async def test_buffered_subscription_ends_at_question(dialect: Dialect) -> None:
    """The message with the answer has to wait for the response, so the response can't wait for the answer."""
    served = ServedTasks()
    task = await served.prepare("asking")
    sent = sent_by(dialect, "SubscribeToTask", {"id": task["id"]})
    answer = await ask(sam_local(served.app), sent.method, sent.target, dict(sent.headers), sent.body)
    assert answer.status_code == 200
    assert answer.text.count("data:") == 1
    assert re.search("input.required", answer.text, re.IGNORECASE)


@each_row("dialect", DIALECTS)
@each_row("name", RAW)
async def test_buffered_handler_refuses_body_that_is_no_request(dialect: Dialect, name: str) -> None:
    app = hostile_app()
    sent = sent_by(dialect, SEND, {})
    for event_of in (sam_event, base64_event):
        answer = await ask(sam_local(app, event_of), "POST", sent.target, dict(sent.headers), RAW[name](1000))
        body = answer.json()
        assert (answer.status_code, answer.headers["content-type"]) == (
            (400, "application/a2a+json" if dialect.name == REST else "application/json")
            if dialect.is_rest
            else (200, "application/json")
        )
        assert len((body if dialect.name == "HTTP+JSON 0.3" else body["error"])["message"]) > 20


@pytest.mark.parametrize("target", ["/", "/message:send"])
async def test_buffered_handler_refuses_bytes_beyond_utf_8(target: str) -> None:
    """API Gateway passes any bytes on, in base64."""
    app = sam_local(hostile_app(), base64_event)
    answer = await ask(app, "POST", target, {"content-type": "application/json"}, b'{"a": "\xff"}')
    assert answer.status_code == (200 if target == "/" else 400)
    assert answer.json()["error"]["message"]


async def test_buffered_handler_answers_each_hostile_body() -> None:
    app = sam_local(hostile_app())
    costs = [await cost_of(app, body) for body in hostile_bodies(2_000, dialects=(DIALECTS[0], DIALECTS[2]))]
    assert len(costs) > 60
    for cost in costs:
        assert cost.status < 500, cost.body.name
        json.loads(cost.answer)


@each_dialect
@pytest.mark.parametrize(
    ("changes", "headers", "status"),
    [
        ({"body": b'{"x": "' + b"x" * 5 * 1024 * 1024 + b'"}'}, {}, 413),
        ({}, {"content-encoding": "gzip"}, 415),
        ({"method": "PUT"}, {}, 405),
    ],
    ids=["too large", "compressed", "wrong method"],
)
async def test_buffered_refusal_has_http_status_and_json(
    dialect: Dialect, changes: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    served = ServedTasks(behind=sam_local)
    answer = await served.ask(dialect, replace(sent_by(dialect, SEND, message()), **changes), **headers)
    assert answer.status == status
    assert json.loads(answer.body)


async def test_buffered_answer_to_head_keeps_its_length_without_body() -> None:
    card = "/.well-known/agent-card.json"
    app = sam_local(ServedTasks().app)
    head, whole = await ask(app, "HEAD", card), await ask(app, "GET", card)
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len(whole.content)
    assert (await ask(app, "GET", card, {"if-none-match": whole.headers["etag"]})).status_code == 304
