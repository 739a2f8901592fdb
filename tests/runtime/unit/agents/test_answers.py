"""Answers in each form to questions in each form: the value that the agent's code gets, or the question again."""

from typing import Any

import httpx
import pytest

from tests.runtime.unit.agents.asking_agents import ASKING
from tests.support.adk import DIALECTS, as_v03, task_of
from tests.support.rows import taking_turns
from tests.support.service import http, parts, send

AGAIN = object()
"""The question is repeated, and the agent's code does not get the answer."""

FILE = {"raw": "AAEC", "mediaType": "image/png"}
BLOCKS = [{"type": "image", "base64": "AAEC", "mime_type": "image/png"}]
LIST = ["a", "b"]
OSLO = {"city": "Oslo", "seats": 2}
ACCEPT, IGNORE = {"type": "accept", "args": None}, {"type": "ignore", "args": None}


def edit(**args: str) -> dict[str, Any]:
    return {"type": "edit", "args": {"action": "send_mail", "args": args}}


def response(text: str) -> dict[str, Any]:
    return {"type": "response", "args": text}


FREE = {"fit": {"text": "no"}, "value": "no"}

ANY: list[tuple[Any, Any]] = [("no", "no"), ({"a": 1}, {"a": 1})]
BY_SCHEMA: list[tuple[Any, Any]] = [
    ('{"city": "Oslo", "seats": 2}', OSLO),
    (OSLO, OSLO),
    ("Oslo", AGAIN),
    ({"city": "Oslo"}, AGAIN),
    ({"city": "Oslo", "seats": "many"}, AGAIN),
    ({"city": "Oslo", "seats": 0}, AGAIN),
    (FILE, AGAIN),
    (LIST, AGAIN),
]
ONE_REQUEST: list[tuple[Any, Any]] = [
    ("accept", ACCEPT),
    ("Yes.", ACCEPT),
    ("ignore", IGNORE),
    ("no", IGNORE),
    ('{"type": "accept"}', ACCEPT),
    ('edit: {"to": "bob"}', edit(to="bob")),
    ("perhaps", AGAIN),
    ({"type": "accept"}, ACCEPT),
    (ACCEPT, ACCEPT),
    (edit(to="bob"), edit(to="bob")),
    ({"type": "edit", "args": {"to": "bob"}}, edit(to="bob")),
    ({"type": "edit"}, AGAIN),
    (response("Later."), AGAIN),
    ({"type": "perhaps"}, AGAIN),
    ({}, AGAIN),
    (FILE, AGAIN),
    (LIST, AGAIN),
    ([ACCEPT, ACCEPT], AGAIN),
]
TOKEN = {"access_token": "t-1"}

ANSWERS: dict[str, list[tuple[Any, Any]]] = {
    "text": [*ANY, (FILE, BLOCKS), (LIST, LIST)],
    "dict": [*ANY, ("Monday", "Monday"), (FILE, BLOCKS), (LIST, LIST)],
    "schema in the value": BY_SCHEMA,
    "schema": BY_SCHEMA,
    "class": [each for each in BY_SCHEMA if each[0] != {"city": "Oslo", "seats": 0}],
    "middleware": [
        ("approve", "ada"),
        ("perhaps", AGAIN),
        ({"decisions": [{"type": "approve"}]}, "ada"),
        ({"decisions": []}, AGAIN),
        (FILE, AGAIN),
        (LIST, AGAIN),
        ([{"type": "approve"}], "ada"),
    ],
    "inbox": [*ONE_REQUEST, ([ACCEPT], [ACCEPT])],
    "inbox list": [(given, value if value is AGAIN else [value]) for given, value in ONE_REQUEST]
    + [([ACCEPT], [ACCEPT])],
    "inbox with response": [
        ("Later, please.", [response("Later, please.")]),
        ("response: Later.", [response("Later.")]),
        ("response", AGAIN),
        ("accept", [ACCEPT]),
        (response("Later."), [response("Later.")]),
    ],
    "confirmation": [
        ("yes", "ada"),
        ("perhaps", AGAIN),
        ({"confirmed": True}, "ada"),
        ({"confirmed": "x"}, AGAIN),
        (FILE, AGAIN),
        (LIST, AGAIN),
    ],
    "RequestInput": [each for each in BY_SCHEMA if each[0] != {"city": "Oslo", "seats": 0}],
    "credential": [
        ("t-1", {"token": "t-1"}),
        ("no thanks, I do not want to sign in", AGAIN),
        ({"accessToken": "t-1"}, {"token": "t-1"}),
        ({"auth_type": "oauth2", "oauth2": TOKEN}, {"token": "t-1"}),
        ({"auth_type": "oauth2", "oauth2": {"access_token": "t-1", "state": "another"}}, AGAIN),
        ({"auth_type": "oauth2"}, AGAIN),
        ({"auth_type": "oauth2", "oauth2": {"access_token": "no thanks"}}, AGAIN),
        ({"auth_type": "apiKey", "api_key": "t-1"}, AGAIN),
        ("https://app.test/?code=1&state=another", AGAIN),
        ("https://app.test/", AGAIN),
        ("no", {"error": "access_denied"}),
        ("Cancel", {"error": "access_denied"}),
        ({"error": "access_denied"}, {"error": "access_denied"}),
        ("https://app.test/?error=access_denied", {"error": "access_denied"}),
        ("https://app.test/?error=access_denied&state=another", AGAIN),
        (FILE, AGAIN),
        (LIST, AGAIN),
    ],
    "long-running tool": [
        ("approved", {"result": "approved"}),
        ({"approved": True}, {"approved": True}),
        (FILE, AGAIN),
        (LIST, {"result": LIST}),
    ],
}
"""Answers by the form of the question, with the value that the agent gets."""

UNWRAPPED = ("text", "dict", "long-running tool")
"""Questions that accept any data. In v0.3 data is an object, so they get the object around a list."""


def part(given: Any, dialect: str) -> dict[str, Any]:
    """Return a part with this text, data or file. In v0.3 data must be an object."""
    old = "/" in dialect
    if isinstance(given, dict) and "mediaType" in given:
        made = given
    else:
        made = (
            {"text": given}
            if isinstance(given, str)
            else {"data": {"value": given} if old and isinstance(given, list) else given}
        )
    return as_v03(made) if old else made


async def say(client: httpx.AsyncClient, dialect: str, given: Any, **message: Any) -> dict[str, Any]:
    """Send one part and return the JSON-RPC response."""
    request = send(method=dialect, **message)
    request["params"]["message"]["parts"] = [part(given, dialect)]
    answer: dict[str, Any] = (await client.post("/", json=request)).json()
    return answer


def state(task: dict[str, Any]) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_")


LIKE_OTHERS = ("schema", "class", "inbox list")
"""Questions that take the same answers as another one."""

CASES = [
    pytest.param((question, given, value), dialect, marks=[pytest.mark.deep] * is_deep)
    for question, rows in ANSWERS.items()
    for number, (given, value) in enumerate(rows)
    for turn, dialect in enumerate(DIALECTS)
    for is_deep in [(number + turn) % 2 or (question in LIKE_OTHERS and number > 3)]
]


@pytest.mark.parametrize(("case", "dialect"), CASES)
async def test_answer_reaches_agent_or_repeats_question(dialect: str, case: tuple[str, Any, Any]) -> None:
    question, given, value = case
    got: list[Any] = []
    async with http(parts(ASKING[question](got, 1)).app()) as client:
        asked = task_of(await say(client, dialect, "hi", message_id="m-1"))
        message = asked["status"]["message"]
        answered = task_of(await say(client, dialect, given, message_id="m-2", taskId=asked["id"]))
    if value is AGAIN:
        assert (state(answered), got) == (state(asked), [])
        assert answered["status"]["message"]["metadata"] == message["metadata"]
        assert answered["status"]["message"]["parts"][1:] == message["parts"], "the reason, then the question"
        return
    wrapped = "/" in dialect and isinstance(given, list) and question in UNWRAPPED
    assert state(answered) == "COMPLETED", answered["status"]
    assert [as_json(each) for each in got] == [{"value": given} if wrapped else value]


def as_json(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value


@taking_turns(question=ASKING, dialect=DIALECTS)
async def test_answer_with_wrong_interrupt_id_is_refused(dialect: str, question: str) -> None:
    got: list[Any] = []
    async with http(parts(ASKING[question](got, 1)).app()) as client:
        asked = task_of(await say(client, dialect, "hi", message_id="m-1"))
        wrong = {"metadata": {"interruptId": "another"}}
        refused = await say(client, dialect, "yes", message_id="m-2", taskId=asked["id"], **wrong)
    assert (refused["error"]["code"], got) == (-32602, [])


@taking_turns(question=ASKING, dialect=DIALECTS)
async def test_answer_must_name_one_of_several_questions(dialect: str, question: str) -> None:
    got: list[Any] = []
    given, value = next((given, value) for given, value in ANSWERS[question] if value is not AGAIN)
    async with http(parts(ASKING[question](got, 2)).app()) as client:
        asked = task_of(await say(client, dialect, "hi", message_id="m-1"))
        ids = [each["id"] for each in asked["status"]["message"]["metadata"]["interrupts"]]
        for number, unnamed in enumerate((given, FILE)):
            refused = await say(client, dialect, unnamed, message_id=f"m-2-{number}", taskId=asked["id"])
            assert (refused["error"]["code"], got) == (-32602, [])
        for number, name in enumerate(ids):
            named = {"message_id": f"m-3-{number}", "taskId": asked["id"], "metadata": {"interruptId": name}}
            answered = task_of(await say(client, dialect, given, **named))
    assert (len(ids), state(answered)) == (2, "COMPLETED")
    assert value in [as_json(each) for each in got]
