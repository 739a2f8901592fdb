"""Tool calls that a person approves (HumanInTheLoopMiddleware), over HTTP: the prompt, and answers as word or data."""

import json
from typing import Any

import httpx
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Interrupt, interrupt
from pydantic import BaseModel

from aion_core.agents.client_answers import InvalidResumeInput
from aion_core.agents.langgraph.approvals import Review, review_of
from aion_core.agents.langgraph.interrupts import _PROMPTS, input_required
from aion_core.protocol.message_json import to_json
from tests.runtime.golden.graphs import ScriptedModel
from tests.support.rows import each_row
from tests.support.service import http, parts, send

sent: list[tuple[str, str]] = []


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    sent.clear()


def mail(to: str, text: str) -> str:
    """Send a mail."""
    sent.append((to, text))
    return "sent"


class InterruptModel(ScriptedModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def an_agent(*texts: str, mode: Any = "batched", allowed: Any = True) -> Any:
    """Return an agent that sends these mails, then answers that it is done."""
    calls = [
        AIMessageChunk(
            content="",
            tool_call_chunks=[
                {
                    "type": "tool_call_chunk",
                    "name": "mail",
                    "args": f'{{"to": "ada", "text": "{text}"}}',
                    "id": f"call-{number}",
                    "index": number,
                }
            ],
        )
        for number, text in enumerate(texts)
    ]
    review: Any = HumanInTheLoopMiddleware(interrupt_on={"mail": allowed}, interrupt_mode=mode)
    return create_agent(InterruptModel(scripts=[calls, ["Done."], ["Done."]]), [mail], middleware=[review])


async def post(client: httpx.AsyncClient, text: str = "hi", data: Any = None, **message: Any) -> dict[str, Any]:
    request = send(text, **message)
    if data is not None:
        request["params"]["message"]["parts"] = [{"data": data}]
    answer = (await client.post("/", json=request)).json()
    assert "result" in answer, answer
    task: dict[str, Any] = answer["result"]["task"]
    return task


async def answered(client: httpx.AsyncClient, task: dict[str, Any], answers: dict[str, Any]) -> dict[str, Any]:
    """Return the task after one message with a part for each of these interrupts."""
    request = send(message_id="m-2", taskId=task["id"])
    parts = [{**part, "metadata": {"interruptId": name}} for name, part in answers.items()]
    request["params"]["message"]["parts"] = parts
    result: dict[str, Any] = (await client.post("/", json=request)).json()["result"]["task"]
    return result


def texts(task: dict[str, Any]) -> list[str]:
    return [part["text"] for part in task["status"]["message"]["parts"] if "text" in part]


MODES = pytest.mark.parametrize("mode", ["batched", "per_call"])


@MODES
async def test_tool_call_review_asks_client_in_text_and_data(mode: str) -> None:
    async with http(parts(an_agent("hello", mode=mode)).app()) as client:
        task = await post(client, message_id="m-1")
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    [question] = texts(task)
    assert question.startswith('May the agent call mail(to="ada", text="hello")? Answer approve')
    [data] = [part["data"] for part in task["status"]["message"]["parts"] if "data" in part]
    args = data["action_requests"][0]["args"] if mode == "batched" else data["args"]
    assert args == {"to": "ada", "text": "hello"}
    assert sent == []


@MODES
@pytest.mark.parametrize(
    ("word", "mails"),
    [
        ("Yes.", [("ada", "hello")]),
        ('{"type": "approve"}', [("ada", "hello")]),
        ("Reject: not on a Sunday", []),
        ("Respond: she knows it", []),
    ],
)
async def test_word_decides_on_tool_call(word: str, mails: list[Any], mode: str) -> None:
    async with http(parts(an_agent("hello", mode=mode)).app()) as client:
        asked = await post(client, message_id="m-1")
        task = await post(client, word, message_id="m-2", taskId=asked["id"])
    assert (task["status"]["state"], texts(task), sent) == ("TASK_STATE_COMPLETED", ["Done."], mails)


EDIT = {"type": "edit", "edited_action": {"name": "mail", "args": {"to": "bob", "text": "bye"}}}


@MODES
@pytest.mark.parametrize("data", [EDIT, {"decisions": [EDIT]}], ids=["a decision", "decisions"])
async def test_data_answer_may_edit_tool_call(data: Any, mode: str) -> None:
    async with http(parts(an_agent("hello", mode=mode)).app()) as client:
        asked = await post(client, message_id="m-1")
        task = await post(client, data=data, message_id="m-2", taskId=asked["id"])
    assert (task["status"]["state"], sent) == ("TASK_STATE_COMPLETED", [("bob", "bye")])


@MODES
async def test_invalid_decision_repeats_tool_call_review(mode: str) -> None:
    """Send an invalid decision: the turn does not fail, and the same interrupt accepts another answer."""
    async with http(parts(an_agent("hello", mode=mode)).app()) as client:
        asked = await post(client, message_id="m-1")
        again = await post(client, "what do you think?", message_id="m-2", taskId=asked["id"])
        assert again["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        why, question = texts(again)
        assert "decision" in why
        assert 'Answer approve, reject or respond: your text, or send {"decisions"' in why
        assert question == texts(asked)[0]
        assert again["status"]["message"]["metadata"] == asked["status"]["message"]["metadata"]
        assert sent == []
        task = await post(client, "approve", message_id="m-3", taskId=asked["id"])
    assert (task["status"]["state"], sent) == ("TASK_STATE_COMPLETED", [("ada", "hello")])


NAN = {"type": "edit", "edited_action": {"name": "mail", "args": {"to": float("nan")}}}


@pytest.mark.parametrize("one_by_one", [False, True])
@each_row(
    "answer",
    [
        {"type": "perhaps"},
        {"type": "edit"},
        {"type": "edit", "edited_action": {"name": "mail"}},
        {"decisions": ["approve"]},
        "7",
        "[" * 20_000,
        json.dumps(NAN),
        "respond",
        "edit",
    ],
)
def test_unfit_decision_is_refused(answer: Any, one_by_one: bool) -> None:
    allowed = [["approve", "edit", "reject", "respond"]]
    review = Review([{"name": "mail", "args": {}}], allowed, one_by_one=one_by_one)
    with pytest.raises(InvalidResumeInput, match="decision"):
        review.value_of(answer)


async def test_edit_to_unknown_tool_repeats_tool_call_review() -> None:
    edit = {"type": "edit", "edited_action": {"name": "fax", "args": {"to": "bob", "text": "bye"}}}
    async with http(parts(an_agent("hello")).app()) as client:
        asked = await post(client, message_id="m-1")
        again = await post(client, data=edit, message_id="m-2", taskId=asked["id"])
        assert (again["status"]["state"], len(texts(again))) == ("TASK_STATE_INPUT_REQUIRED", 2)
        await post(client, data=EDIT, message_id="m-3", taskId=asked["id"])
    assert sent == [("bob", "bye")]


@pytest.mark.parametrize(
    ("calls", "said"), [(1, "One decision is wanted. "), (2, "2 decisions, one for each call, are wanted. ")]
)
def test_error_states_how_many_decisions_are_required(calls: int, said: str) -> None:
    review = Review([{"name": "mail", "args": {}}] * calls, [["approve"]] * calls, one_by_one=False)
    with pytest.raises(InvalidResumeInput, match=f"^{said}"):
        review.value_of({"decisions": []})


async def test_disallowed_decision_repeats_tool_call_review() -> None:
    only: Any = {"allowed_decisions": ["approve", "reject"]}
    async with http(parts(an_agent("hello", allowed=only)).app()) as client:
        asked = await post(client, message_id="m-1")
        assert texts(asked)[0].endswith("Answer approve or reject.")
        again = await post(client, data=EDIT, message_id="m-2", taskId=asked["id"])
    assert again["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert "approve or reject" in texts(again)[0]


def test_tool_call_review_has_description_of_author() -> None:
    """The middleware's own description only repeats the call."""
    config = [{"action_name": "mail", "allowed_decisions": ["approve", "reject"]}]
    call = {"name": "mail", "args": {"to": "ada"}}
    asked = 'May the agent call mail(to="ada")? Answer approve or reject.'
    own = "Tool execution requires approval\n\nTool: mail\nArgs: {'to': 'ada'}"
    for description, text in (
        ("To the whole company!", f"To the whole company!\n{asked}"),
        (own, asked),
        (None, asked),
    ):
        request = {"action_requests": [{**call, "description": description}], "review_configs": config}
        review = review_of(Interrupt(value=request))
        assert review is not None
        assert review.text() == text


async def test_several_tool_calls_accept_one_or_all_decisions() -> None:
    for text, data, expected in (
        ("approve", None, [("ada", "one"), ("ada", "two")]),
        ("", {"decisions": [{"type": "reject"}, {"type": "approve"}]}, [("ada", "two")]),
    ):
        sent.clear()
        async with http(parts(an_agent("one", "two")).app()) as client:
            asked = await post(client, message_id="m-1")
            assert '1. mail(to="ada", text="one")' in texts(asked)[0]
            assert '2. mail(to="ada", text="two")' in texts(asked)[0]
            task = await post(client, text, data, message_id="m-2", taskId=asked["id"])
        assert (task["status"]["state"], sorted(sent)) == ("TASK_STATE_COMPLETED", expected)


async def test_separate_tool_call_reviews_are_answered_by_id() -> None:
    async with http(parts(an_agent("one", "two", mode="per_call")).app()) as client:
        task = await post(client, message_id="m-1")
        ids = [entry["id"] for entry in task["status"]["message"]["metadata"]["interrupts"]]
        task = await post(client, "no", message_id="m-2", taskId=task["id"], metadata={"interruptId": ids[0]})
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        task = await post(client, "yes", message_id="m-3", taskId=task["id"], metadata={"interruptId": ids[1]})
    assert (task["status"]["state"], sent) == ("TASK_STATE_COMPLETED", [("ada", "two")])


async def test_valid_decision_beside_invalid_one_counts() -> None:
    async with http(parts(an_agent("one", "two", mode="per_call")).app()) as client:
        asked = await post(client, message_id="m-1")
        listed = asked["status"]["message"]["metadata"]["interrupts"]
        again = await answered(client, asked, {listed[0]["id"]: {"text": "perhaps"}, listed[1]["id"]: {"text": "yes"}})
        why, question = texts(again)
        assert (why.startswith("'perhaps' isn't a decision."), question) == (True, listed[0]["text"])
        task = await post(client, "yes", message_id="m-3", taskId=asked["id"])
    assert (task["status"]["state"], sorted(sent)) == ("TASK_STATE_COMPLETED", [("ada", "one"), ("ada", "two")])


def test_word_respond_is_removed_from_text_answer() -> None:
    request = {
        "action_requests": [{"name": "ask", "args": {}}],
        "review_configs": [{"action_name": "ask", "allowed_decisions": ["respond"]}],
    }
    review = review_of(Interrupt(value=request))
    assert review is not None
    assert review.text().endswith("Answer with a text.")
    for answer, message in (("At noon.", "At noon."), ("respond: At noon.", "At noon."), ("respond", "respond")):
        assert review.value_of(answer) == {"decisions": [{"type": "respond", "message": message}]}


class Seats(BaseModel):
    number: int


@pytest.mark.parametrize("nested", [False, True])
async def test_valid_answer_counts_beside_one_that_violates_its_schema(nested: bool) -> None:
    ran: list[int] = []

    def node(state: Any) -> Any:
        seats = interrupt("How many?", response_schema=Seats)
        ran.append(seats.number)
        return {"messages": [("ai", f"{seats.number} seats")]}

    graph: Any = StateGraph(MessagesState).add_node("a", node).add_node("b", node)
    graph.add_edge(START, "a")
    graph.add_edge(START, "b")
    if nested:
        graph = StateGraph(MessagesState).add_node("inner", graph.compile()).add_edge(START, "inner")
    async with http(parts(graph).app()) as client:
        asked = await post(client, message_id="m-1")
        first, second = (each["id"] for each in asked["status"]["message"]["metadata"]["interrupts"])
        again = await answered(client, asked, {first: {"data": {"number": "many"}}, second: {"data": {"number": 2}}})
        assert again["status"]["message"]["metadata"]["interruptId"] == first
        assert len(texts(again)) == 2, "the reason, and one question"
        task = await post(client, data={"number": 3}, message_id="m-3", taskId=asked["id"])
    assert (task["status"]["state"], ran) == ("TASK_STATE_COMPLETED", [2, 3])


@each_row("key", _PROMPTS)
def test_interrupt_text_comes_from_key_of_value(key: str) -> None:
    required = input_required([Interrupt({key: "Send it?", "to": "ada"}, id="i-1")])
    text, data = required.message.parts
    assert text.text == "Send it?"
    assert to_json(data.data) == {"to": "ada"}


class PlanQuestion(BaseModel):
    prompt: str
    steps: list[str]


IMAGE = {"type": "image", "base64": "aGVsbG8=", "mime_type": "image/png"}


@each_row(
    ("value", "shown"),
    [
        (PlanQuestion(prompt="Do it?", steps=["a"]), ["Do it?", {"steps": ["a"]}]),
        (
            {"prompt": "Do it?", "plan": PlanQuestion(prompt="p", steps=[]), ("a", 1): "hi"},
            ["Do it?", {"plan": {"prompt": "p", "steps": []}, "a,1": "hi"}],
        ),
        ({"frage": "Größe?", "ok": True}, ['{"frage": "Größe?", "ok": true}', {"frage": "Größe?", "ok": True}]),
        (AIMessage("Do it?"), ["Do it?"]),
        (AIMessage(["Is it this one?", IMAGE]), ["Is it this one?", b"hello"]),
        (AIMessage([IMAGE]), [b"hello"]),
    ],
)
def test_interrupt_value_becomes_text_data_and_files(value: Any, shown: list[Any]) -> None:
    found = input_required([Interrupt(value, id="i-1")]).message.parts
    assert [part.text or part.raw or to_json(part.data) for part in found] == shown


async def test_breakpoint_prompt_names_node_within_subgraph() -> None:
    inner: Any = StateGraph(MessagesState).add_node("plan", lambda state: {}).add_node("act", lambda state: {})
    inner = inner.add_edge(START, "plan").add_edge("plan", "act").compile(interrupt_before=["act"])
    graph: Any = StateGraph(MessagesState).add_node("worker", inner).add_edge(START, "worker")
    async with http(parts(graph).app()) as client:
        assert texts(await post(client)) == ["Paused before act. Any answer lets it go on; cancel the task to stop."]
    graph = graph.compile(interrupt_before=["worker"])
    async with http(parts(graph).app()) as client:
        assert texts(await post(client)) == ["Paused before worker. Any answer lets it go on; cancel the task to stop."]


@pytest.mark.parametrize("is_nested", [False, True])
async def test_breakpoint_before_tools_shows_their_calls(is_nested: bool) -> None:
    def call(state: MessagesState) -> dict[str, Any]:
        calls = [{"name": "mail", "args": {"to": to}, "id": to} for to in ("ada", "bob")]
        return {"messages": [AIMessage("", tool_calls=calls)]}

    def tools(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("Mailed.")]}

    agent: Any = StateGraph(MessagesState).add_node("call", call).add_node("tools", tools)
    agent = agent.add_edge(START, "call").add_edge("call", "tools").compile(interrupt_before=["tools"])
    graph = StateGraph(MessagesState).add_node("agent", agent).add_edge(START, "agent") if is_nested else agent
    async with http(parts(graph).app()) as client:
        asked = await post(client)
        task = await post(client, message_id="m-2", taskId=asked["id"])
    assert texts(asked) == [
        'Paused before tools. The agent wants to call mail(to="ada"), mail(to="bob"). '
        "Any answer lets it go on; cancel the task to stop."
    ]
    assert texts(task) == ["Mailed."]


@pytest.mark.parametrize(
    ("file", "value"),
    [
        ({"raw": "AAEC", "mediaType": "image/png"}, [{"type": "image", "base64": "AAEC", "mime_type": "image/png"}]),
        ({"url": "https://a.b/c.pdf"}, [{"type": "file", "url": "https://a.b/c.pdf", "mime_type": "application/pdf"}]),
        ({"raw": "SGk=", "mediaType": "text/plain"}, "Hi"),
    ],
)
async def test_file_as_answer_becomes_content_blocks(file: dict[str, Any], value: Any) -> None:
    """Answer with a file only: it resumes the interrupt. A file beside a text is not the answer."""
    received: list[Any] = []

    def ask(state: MessagesState) -> dict[str, Any]:
        received.append(interrupt("Send the plan."))
        return {"messages": [AIMessage("Thank you.")]}

    graph = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask")
    async with http(parts(graph).app()) as client:
        for number, given in enumerate([[file], [{"text": "Here."}, file]]):
            asked = await post(client, message_id=f"m-{number}")
            request = send(message_id=f"a-{number}", taskId=asked["id"])
            request["params"]["message"]["parts"] = given
            answer = (await client.post("/", json=request)).json()
            assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert received == [value, "Here."]


async def test_file_is_no_decision_on_tool_call() -> None:
    async with http(parts(an_agent("hello")).app()) as client:
        asked = await post(client, message_id="m-1")
        task = await answered(client, asked, {asked["status"]["message"]["metadata"]["interruptId"]: {"raw": "AAEC"}})
    assert (task["status"]["state"], sent) == ("TASK_STATE_INPUT_REQUIRED", [])
    assert texts(task)[0].startswith("That isn't a decision on this call.")
