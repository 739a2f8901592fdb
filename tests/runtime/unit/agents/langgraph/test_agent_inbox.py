"""Requests in the form of LangChain's Agent Inbox: their text, and answers to several of them."""

from typing import Any

import pytest
from langgraph.types import Interrupt

from aion_core.agents.client_answers import InvalidResumeInput
from aion_core.agents.langgraph.agent_inbox import inbox_of
from aion_core.agents.langgraph.interrupts import input_required
from aion_core.protocol.interrupts import questions_of
from aion_core.protocol.message_json import to_json
from tests.support.rows import each_row

ALL = {"allow_accept": True, "allow_edit": True, "allow_ignore": True, "allow_respond": True}


def request(action: str = "send_mail", description: str | None = None, args: Any = None, **allowed: bool) -> Any:
    asked = {"action_request": {"action": action, "args": args or {}}, "config": allowed or ALL}
    return {**asked, "description": description}


ACCEPT, IGNORE = {"type": "accept", "args": None}, {"type": "ignore", "args": None}


@each_row(
    ("given", "text"),
    [
        (
            request("mail", "Send it?", {"to": "Åsa"}),
            'Send it?\nmail(to="Åsa")\nAnswer accept, edit: {…}, ignore or response: your text.',
        ),
        (
            request("Review the plan", "# Plan\n\nGo."),
            "# Plan\n\nGo.\nAnswer accept, edit: {…}, ignore or response: your text.",
        ),
        (request("mail", args={"n": 1}, allow_accept=True, allow_ignore=True), "mail(n=1)\nAnswer accept or ignore."),
        (request("ask", "Which day?", allow_respond=True), "Which day?\nAnswer with a text."),
        (request("mail", allow_accept=False), "mail()\nAnswer accept, edit: {…}, ignore or response: your text."),
    ],
)
def test_question_has_description_action_and_allowed_answers(given: Any, text: str) -> None:
    found = inbox_of([given])
    assert found is not None
    assert found.text() == text


def test_question_of_several_requests_numbers_them() -> None:
    requests = [request("a", "First?"), request("b", "Second?", allow_accept=True)]
    message = input_required([Interrupt(requests, id="i-1")]).message
    text, data = message.parts
    assert text.text.splitlines() == [
        "One word answers all of these requests.",
        "1. First?",
        "Answer accept, edit: {…}, ignore or response: your text.",
        "2. Second?",
        "Answer accept.",
    ]
    assert to_json(data.data) == requests
    assert [each.choices for each in questions_of(message)] == [["accept"]]


@each_row(
    "value",
    [
        "send_mail",
        [],
        {},
        [request(), "another"],
        {"action_request": {"args": {}}, "config": ALL},
        {"action_request": {"action": "a"}, "config": {}},
        {"action_request": {"action": "a"}, "description": "Really?"},
    ],
)
def test_other_values_are_no_requests(value: Any) -> None:
    assert inbox_of(value) is None


@each_row(
    ("answer", "responses"),
    [
        ("yes", [ACCEPT, ACCEPT]),
        ([ACCEPT, {"type": "ignore"}], [ACCEPT, IGNORE]),
        ({"value": [IGNORE, {"type": "approve"}]}, [IGNORE, ACCEPT]),
        ('[{"type": "accept"}, {"type": "reject"}]', [ACCEPT, IGNORE]),
        ("Later.", [{"type": "response", "args": "Later."}] * 2),
    ],
)
def test_several_requests_get_one_response_each(answer: Any, responses: Any) -> None:
    found = inbox_of([request("a"), request("b")])
    assert found is not None
    assert found.value_of(answer) == responses


@each_row("answer", [ACCEPT, [ACCEPT], [ACCEPT] * 3, [ACCEPT, "accept"], '{"type": "accept"}', 7])
def test_wrong_number_of_responses_is_refused(answer: Any) -> None:
    found = inbox_of([request("a"), request("b")])
    assert found is not None
    with pytest.raises(InvalidResumeInput, match="respons"):
        found.value_of(answer)


@each_row(
    ("allowed", "answer", "response"),
    [
        ({"allow_ignore": True, "allow_respond": True}, "yes", {"type": "response", "args": "yes"}),
        (
            {"allow_respond": True, "allow_accept": True},
            "yes, but later",
            {"type": "response", "args": "yes, but later"},
        ),
        ({"allow_respond": True, "allow_accept": True}, "accept: later", {"type": "response", "args": "accept: later"}),
        ({"allow_ignore": True}, "ignore: not today", IGNORE),
        ({"allow_respond": True}, '{"to": "bob"}', {"type": "response", "args": '{"to": "bob"}'}),
    ],
)
def test_text_that_is_no_allowed_word_is_a_response(allowed: Any, answer: str, response: Any) -> None:
    found = inbox_of([request(**allowed)])
    assert found is not None
    assert found.value_of(answer) == [response]


@each_row("answer", ["accept: but later", "edit", "edit: to bob", "response:", "", " "])
def test_refusal_names_allowed_answers(answer: str) -> None:
    found = inbox_of(request(allow_accept=True, allow_ignore=True))
    assert found is not None
    with pytest.raises(InvalidResumeInput) as raised:
        found.value_of(answer)
    assert str(raised.value).endswith('Answer accept or ignore, or send {"type": "…", "args": …} as data.')
