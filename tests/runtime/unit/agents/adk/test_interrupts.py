"""Interrupts of ADK agents through HTTP: long-running tools, confirmations and credentials."""

import logging
import re
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
from fastapi.openapi.models import APIKey, HTTPBearer, OAuth2, OAuthFlowAuthorizationCode, OAuthFlows
from google.adk import Workflow
from google.adk.agents import BaseAgent, LlmAgent, ParallelAgent, SequentialAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.auth import AuthConfig, AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.events import Event, RequestInput
from google.adk.sessions import InMemorySessionService
from google.adk.tools.authenticated_function_tool import AuthenticatedFunctionTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import FunctionNode
from pydantic import BaseModel

from aion_core.agents.client_answers import QUESTION_EXPIRED
from aion_core.agents.expected_answers import ordered
from tests.support.adk import (
    answer_text,
    ask,
    ask_parts,
    call,
    content,
    earlier,
    llm_agent,
    scripted_model,
    served,
    texts,
    yielding_agent,
)
from tests.support.service import http, parts, send


def state(task: dict[str, Any]) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_")


def data(task: dict[str, Any]) -> list[Any]:
    return [part["data"] for part in task["status"]["message"]["parts"] if "data" in part]


async def answer(client: httpx.AsyncClient, dialect: str, task: dict[str, Any], text: Any, **message: Any) -> Any:
    """Return the task after an answer with text or data."""
    given = {"text": text} if isinstance(text, str) else {"data": text}
    message = {"message_id": "m-2", "taskId": task["id"], "contextId": task["contextId"], **message}
    return await ask_parts(client, dialect, given, **message)


# ── A long-running tool ───────────────────────────────────────────────────────────────────────────────────────────────


def approve(amount: int) -> dict[str, Any] | None:
    """Ask a manager."""
    return {"status": "pending"} if amount > 100 else None


def expenses(amount: int, *scripts: list[Any]) -> tuple[LlmAgent, Any]:
    waiting: list[list[Any]] = [["Your manager is asked."]] if amount > 100 else []
    model = scripted_model([call("approve", "call-1", amount=amount)], *waiting, *scripts)
    return LlmAgent(name="root", model=model, tools=[LongRunningFunctionTool(func=approve)]), model


async def test_text_result_resumes_a_long_running_tool(dialect: str) -> None:
    root, model = expenses(50, ["Paid."])
    async with http(parts(served(root)).app()) as client:
        question = await ask(client, dialect)
        assert state(question) == "INPUT_REQUIRED"
        assert question["status"]["message"]["metadata"] == {"interruptId": "call-1"}
        assert answer_text(question) == "approve(amount=50) waits for its result."
        assert data(question) == [{"name": "approve", "args": {"amount": 50}}]
        done = await answer(client, dialect, question, "approved")
    assert (state(done), answer_text(done), done["id"]) == ("COMPLETED", "Paid.", question["id"])
    assert texts(model.seen[-1])[-1] == "user: approve -> {'result': 'approved'}"


async def test_data_from_client_becomes_result_of_long_running_tool(dialect: str) -> None:
    """Answer with data: it is the result of the tool's call, and the model's earlier text is in the history."""
    root, model = expenses(500, ["Paid."])
    async with http(parts(served(root)).app()) as client:
        question = await ask(client, dialect)
        assert (state(question), earlier(question)) == ("INPUT_REQUIRED", ["hi", "Your manager is asked."])
        assert answer_text(question) == 'approve(amount=500) waits for its result. So far: {"status": "pending"}'
        assert data(question) == [{"name": "approve", "args": {"amount": 500}, "response": {"status": "pending"}}]
        done = await answer(client, dialect, question, {"approved": True})
    assert (state(done), answer_text(done)) == ("COMPLETED", "Paid.")
    assert texts(model.seen[-1])[-1] == "user: approve -> {'approved': True}"


async def test_file_alone_is_no_result_of_long_running_tool(dialect: str) -> None:
    """Answer with a file: the question is repeated with a reason, because many models accept no file as a result."""
    root, model = expenses(50, ["Paid."])
    async with http(parts(served(root)).app()) as client:
        question = await ask(client, dialect)
        ids = {"taskId": question["id"], "contextId": question["contextId"]}
        repeated = await ask_parts(client, dialect, {"raw": "AAEC", "filename": "a.png"}, message_id="m-2", **ids)
        assert (state(repeated), len(model.seen)) == ("INPUT_REQUIRED", 1)
        assert (answer_text(repeated) or "").startswith("A file alone isn't an answer. Send text or data.")
        done = await answer(client, dialect, question, "approved", message_id="m-3")
    assert state(done) == "COMPLETED"


async def test_answer_fails_task_after_session_has_expired(dialect: str) -> None:
    root, model = expenses(50, ["Paid."])
    sessions = InMemorySessionService()
    async with http(parts(served(root, sessions)).app()) as client:
        question = await ask(client, dialect)
        await sessions.delete_session(app_name="test", user_id="anonymous", session_id=question["contextId"])
        failed = await answer(client, dialect, question, "yes")
    assert (state(failed), answer_text(failed)) == ("FAILED", QUESTION_EXPIRED)
    assert len(model.seen) == 1, "the model does not receive the answer as a new message"


@pytest.mark.parametrize("resumable", [True, False])
async def test_answer_selects_one_of_several_interrupts_by_id(dialect: str, resumable: bool) -> None:
    """The server refuses an answer without an id or with an unknown id before it runs the agent."""
    calls = [call("approve", "call-1", amount=1), call("approve", "call-2", amount=2)]
    model = scripted_model(calls, ["One to go."], ["Both paid."])
    root = LlmAgent(name="root", model=model, tools=[LongRunningFunctionTool(func=approve)])
    app = App(name="app", root_agent=root, resumability_config=ResumabilityConfig(is_resumable=resumable))
    async with http(parts(served(app)).app()) as client:
        question = await ask(client, dialect)
        listed = question["status"]["message"]["metadata"]["interrupts"]
        assert [each["id"] for each in listed] == ["call-1", "call-2"]
        for wrong in ({}, {"metadata": {"interruptId": "call-9"}}):
            request = send("yes", method=dialect, message_id="m-9", taskId=question["id"], **wrong)
            assert (await client.post("/", json=request)).json()["error"]["code"] == -32602
        assert len(model.seen) == 1
        half = await answer(client, dialect, question, "yes", metadata={"interruptId": "call-2"})
        assert (state(half), half["status"]["message"]["metadata"]) == ("INPUT_REQUIRED", {"interruptId": "call-1"})
        done = await answer(client, dialect, question, "yes", message_id="m-3")
    assert state(done) == "COMPLETED"


async def test_answer_resumes_interrupted_sub_agent(dialect: str) -> None:
    """Interrupt the second of three sub-agents: the answer resumes it and runs the third, but not the first again."""
    asks = LlmAgent(
        name="asks",
        model=scripted_model([call("approve", "call-1", amount=1)], ["Approved."]),
        tools=[LongRunningFunctionTool(func=approve)],
    )
    root = SequentialAgent(
        name="root",
        sub_agents=[
            LlmAgent(name="first", model=scripted_model(["First."])),
            asks,
            LlmAgent(name="last", model=scripted_model(["Last."])),
        ],
    )
    async with http(parts(served(root)).app()) as client:
        question = await ask(client, dialect)
        assert (state(question), earlier(question)) == ("INPUT_REQUIRED", ["hi", "First."])
        done = await answer(client, dialect, question, "yes")
    assert (state(done), answer_text(done), earlier(done)[-1]) == ("COMPLETED", "Last.", "Approved.")


async def test_open_tool_call_of_canceled_task_gets_a_result(dialect: str) -> None:
    """Cancel the interrupted task: the next turn's model receives the result "canceled" for the open tool call."""
    root, model = expenses(50, ["What else?"])
    async with http(parts(served(root)).app()) as client:
        question = await ask(client, dialect)
        cancel = {"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": question["id"]}}
        assert "result" in (await client.post("/", json=cancel)).json()
        other = await ask(client, dialect, "and?", message_id="m-2", contextId=question["contextId"])
    assert (state(other), answer_text(other)) == ("COMPLETED", "What else?")
    assert texts(model.seen[-1])[1:] == [
        "model: approve({'amount': 50})",
        "user: approve -> {'error': 'canceled'}",
        "user: and?",
    ]


@pytest.mark.parametrize(("kind", "expected"), [("input", "INPUT_REQUIRED"), ("auth", "AUTH_REQUIRED")])
async def test_client_receives_question_that_remote_agent_asks(dialect: str, kind: str, expected: str) -> None:
    """Ask as a RemoteA2aAgent does whose agent waits for input or a credential."""
    asked = call(f"mock_function_call_for_required_user_{kind}", "call-1", **{f"{kind}_required": "Which day?"})
    event = Event(author="root", content=content(asked), long_running_tool_ids={"call-1"})
    async with http(parts(served(yielding_agent(event))).app()) as client:
        question = await ask(client, dialect)
    assert state(question) == expected
    assert question["status"]["message"]["parts"] == [{"text": "Which day?"}], "without ADK's name of the call"


@pytest.mark.parametrize("nested", [False, True])
async def test_sub_agent_in_task_mode_receives_users_answer(dialect: str, nested: bool) -> None:
    """While the agent asks the user, its parent's call stays open, so the agent gets the user's next message."""
    finish = call("finish_task", result="Bob")
    scripts = ["Your name?"], ["Really?"], [finish]
    clerk = llm_agent(*scripts, name="clerk", mode="task", description="Asks for the name.")
    first = clerk
    if nested:
        script = [call("clerk", request="go")], [finish]
        first = llm_agent(*script, name="desk", mode="task", description="Asks the clerk.", sub_agents=[clerk])
    root = llm_agent([call(first.name, request="go")], ["Hello Bob."], ["Bye."], sub_agents=[first])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
        answers = [answer_text(task)]
        for n, text in enumerate(("Bob", "yes", "bye")):
            task = await ask(client, dialect, text, message_id=f"m-{n + 2}", contextId=task["contextId"])
            answers.append(answer_text(task))
    assert answers == ["Your name?", "Really?", "Hello Bob.", "Bye."]


async def test_answer_contains_result_of_adk_agent_in_task_mode(dialect: str) -> None:
    root = llm_agent([call("finish_task", result="Bob")], mode="task")
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
    assert (state(task), data(task)) == ("COMPLETED", [{"result": "Bob"}])


async def test_root_agent_answers_next_message_after_sub_agent_fails(dialect: str) -> None:
    clerk = llm_agent([ValueError()], name="clerk", mode="task", description="Asks for the name.")
    root = llm_agent([call("clerk", request="go")], ["What else?"], sub_agents=[clerk])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
        other = await ask(client, dialect, "and?", message_id="m-2", contextId=task["contextId"])
    assert (state(task), state(other), answer_text(other)) == ("FAILED", "COMPLETED", "What else?")


# ── A confirmation ────────────────────────────────────────────────────────────────────────────────────────────────────

paid: list[int] = []


@pytest.fixture(autouse=True)
def reset_paid() -> None:
    paid.clear()


def pay(amount: int) -> str:
    paid.append(amount)
    return "paid"


def pay_after_confirmation(tool_context: ToolContext, amount: int) -> dict[str, Any]:
    """Pay after a confirmation."""
    confirmation = tool_context.tool_confirmation
    if confirmation is None:
        tool_context.request_confirmation(hint="That is a lot.", payload={"amount": amount})
        return {"status": "waiting"}
    if not confirmation.confirmed:
        return {"status": "refused"}
    paid.append(int((confirmation.payload or {})["amount"]))
    return {"status": "paid"}


TOOLS: dict[str, Any] = {
    "pay": FunctionTool(pay, require_confirmation=True),
    "pay_after_confirmation": pay_after_confirmation,
}


@pytest.mark.parametrize("tool", TOOLS)
async def test_tool_runs_once_after_confirmation(dialect: str, tool: str) -> None:
    model = scripted_model([call(tool, amount=5)], ["Done."])
    root = LlmAgent(name="root", model=model, tools=[TOOLS[tool]])
    async with http(parts(served(root)).app()) as client:
        question = await ask(client, dialect)
        assert state(question) == "INPUT_REQUIRED"
        hint = "" if tool == "pay" else "That is a lot.\n"
        assert answer_text(question) == f"{hint}May the agent call {tool}(amount=5)? Answer yes or no."
        assert data(question)[0]["args"] == {"amount": 5}
        assert paid == []
        given = "yes" if tool == "pay" else {"confirmed": True, "payload": {"amount": 3}}
        done = await answer(client, dialect, question, given)
    assert (state(done), answer_text(done), paid) == ("COMPLETED", "Done.", [5 if tool == "pay" else 3])


@pytest.mark.parametrize("given", ["yes", {"confirmed": True}])
async def test_confirmation_schema_offers_payload_of_tool_as_default(dialect: str, given: Any) -> None:
    """A client's form can then show the payload that the tool proposes."""
    model = scripted_model([call("pay_after_confirmation", amount=5)], ["Done."])
    root = LlmAgent(name="root", model=model, tools=[pay_after_confirmation])
    async with http(parts(served(root)).app()) as client:
        question = await ask(client, dialect)
        (listed,) = question["status"]["message"]["metadata"]["interrupts"]
        assert listed["schema"]["properties"]["payload"] == {"type": "object", "default": {"amount": 5}}
        done = await answer(client, dialect, question, given)
    assert (state(done), paid) == ("COMPLETED", [5])


async def test_confirmation_request_renders_whole_numbers_as_integers(dialect: str) -> None:
    root = LlmAgent(name="root", model=scripted_model([call("pay", amount=5)]), tools=[TOOLS["pay"]])
    async with http(parts(served(root)).app()) as client:
        body = (await client.post("/", json=send(method=dialect))).text
    assert re.search(r'"amount": ?5}', body)


@pytest.mark.parametrize("no", ["No.", {"confirmed": False}])
async def test_rejected_tool_call_does_not_run(dialect: str, no: Any) -> None:
    root = LlmAgent(name="root", model=scripted_model([call("pay", amount=5)], ["Then not."]), tools=[TOOLS["pay"]])
    async with http(parts(served(root)).app()) as client:
        done = await answer(client, dialect, await ask(client, dialect), no)
    assert (state(done), answer_text(done), paid) == ("COMPLETED", "Then not.", [])


async def test_answer_without_decision_repeats_confirmation_request(dialect: str) -> None:
    model = scripted_model([call("pay", amount=5)], ["Done."])
    root = LlmAgent(name="root", model=model, tools=[TOOLS["pay"]])
    async with http(parts(served(root)).app()) as client:
        question = await ask(client, dialect)
        again = await answer(client, dialect, question, "perhaps")
        assert state(again) == "INPUT_REQUIRED"
        assert str(answer_text(again)).startswith("That is not a decision.")
        assert again["status"]["message"]["metadata"] == question["status"]["message"]["metadata"]
        assert len(model.seen) == 1
        done = await answer(client, dialect, question, "ok", message_id="m-3")
    assert (state(done), paid) == ("COMPLETED", [5])


@pytest.mark.parametrize(("decision", "expected"), [("Yes.", [7]), ({"confirmed": True}, [7]), ("no", [])])
async def test_workflow_node_runs_only_after_confirmation(dialect: str, decision: Any, expected: list[int]) -> None:
    def transfer(node_input: Any) -> str:
        paid.append(7)
        return "paid"

    node = FunctionNode(func=transfer, name="transfer", require_confirmation=True, rerun_on_resume=True)
    async with http(parts(served(Workflow(name="root", edges=[("START", node)]))).app()) as client:
        question = await ask(client, dialect)
        assert str(answer_text(question)).startswith("May the agent call transfer(node_input=")
        assert data(question)[0]["args"]["node_input"] == {"role": "user", "parts": [{"text": "hi"}]}
        again = await answer(client, dialect, question, "perhaps")
        assert (state(again), paid) == ("INPUT_REQUIRED", [])
        done = await answer(client, dialect, again, decision, message_id="m-3")
    assert (state(done), paid) == ("COMPLETED", expected)


async def test_parallel_interrupts_are_answered_one_by_one(dialect: str) -> None:
    branches: list[BaseAgent] = [
        LlmAgent(name=name, model=scripted_model([call("pay", amount=n)], [f"{name} done."]), tools=[TOOLS["pay"]])
        for n, name in enumerate(("one", "two"), start=1)
    ]
    async with http(parts(served(ParallelAgent(name="root", sub_agents=branches))).app()) as client:
        question = await ask(client, dialect)
        ids = [each["id"] for each in question["status"]["message"]["metadata"]["interrupts"]]
        half = await answer(client, dialect, question, "yes", metadata={"interruptId": ids[0]})
        assert (state(half), len(paid)) == ("INPUT_REQUIRED", 1)
        done = await answer(client, dialect, question, "yes", message_id="m-3")
    assert (state(done), sorted(paid)) == ("COMPLETED", [1, 2])


async def test_interrupt_message_lists_several_interrupts_with_schemas(dialect: str) -> None:
    """Each message part has its interrupt's id; the metadata lists all interrupts with the schemas of their answers."""
    calls = [call("pay", "call-1", amount=5), call("pay", "call-2", amount=7)]
    root = LlmAgent(name="root", model=scripted_model(calls), tools=[TOOLS["pay"]])
    async with http(parts(served(root)).app()) as client:
        message = (await ask(client, dialect))["status"]["message"]
    first, second = message["metadata"]["interrupts"]
    assert first["text"] == "May the agent call pay(amount=5)? Answer yes or no."
    assert first["schema"]["properties"] == {"confirmed": {"type": "boolean"}}
    named = [(part["metadata"]["interruptId"], part.get("text", part.get("data", {}))) for part in message["parts"]]
    assert [name for name, _ in named] == [first["id"], first["id"], second["id"], second["id"]]
    assert [content["args"] for _, content in named if isinstance(content, dict)] == [{"amount": 5}, {"amount": 7}]


@pytest.mark.parametrize("place", ["one agent", "parallel agents"])
async def test_one_message_answers_several_interrupts(dialect: str, place: str) -> None:
    agents: list[BaseAgent] = [
        LlmAgent(name=name, model=scripted_model([call("pay", amount=n)], [f"{name}."]), tools=[TOOLS["pay"]])
        for n, name in enumerate(("one", "two"), start=1)
    ]
    root: BaseAgent = ParallelAgent(name="root", sub_agents=agents)
    if place == "one agent":
        model = scripted_model([call("pay", amount=1), call("pay", amount=2)], ["Done."])
        root = LlmAgent(name="root", model=model, tools=[TOOLS["pay"]])
    async with http(parts(served(root)).app()) as client:
        question = await ask(client, dialect)
        ids = [each["id"] for each in question["status"]["message"]["metadata"]["interrupts"]]
        given: list[dict[str, Any]] = [
            {"text": "no", "metadata": {"interruptId": ids[0]}},
            {"data": {"confirmed": True}, "metadata": {"interruptId": ids[1]}},
        ]
        done = await ask_parts(client, dialect, *given, message_id="m-2", taskId=question["id"])
    assert (state(done), paid) == ("COMPLETED", [2])


async def test_valid_answer_beside_invalid_one_counts(dialect: str) -> None:
    agents: list[BaseAgent] = [
        LlmAgent(name=name, model=scripted_model([call("pay", amount=n)], [f"{name}."]), tools=[TOOLS["pay"]])
        for n, name in enumerate(("one", "two"), start=1)
    ]
    async with http(parts(served(ParallelAgent(name="root", sub_agents=agents))).app()) as client:
        question = await ask(client, dialect)
        listed = question["status"]["message"]["metadata"]["interrupts"]
        given: list[dict[str, Any]] = [
            {"text": "perhaps", "metadata": {"interruptId": listed[0]["id"]}},
            {"text": "yes", "metadata": {"interruptId": listed[1]["id"]}},
        ]
        again = await ask_parts(client, dialect, *given, message_id="m-2", taskId=question["id"])
        assert (state(again), len(paid)) == ("INPUT_REQUIRED", 1)
        why, repeated, *_ = [part["text"] for part in again["status"]["message"]["parts"] if "text" in part]
        assert (why.startswith("That is not a decision."), repeated) == (True, listed[0]["text"])
        done = await answer(client, dialect, question, "yes", message_id="m-3")
    assert (state(done), sorted(paid)) == ("COMPLETED", [1, 2])


async def test_answer_part_without_interrupt_id_is_refused(dialect: str) -> None:
    """The error lists the open interrupts, and the agent does not run."""
    model = scripted_model([call("pay", "call-1", amount=1), call("pay", "call-2", amount=2)], ["Done."])
    root = LlmAgent(name="root", model=model, tools=[TOOLS["pay"]])
    async with http(parts(served(root)).app()) as client:
        question = await ask(client, dialect)
        ids = [each["id"] for each in question["status"]["message"]["metadata"]["interrupts"]]
        request = send("yes", method=dialect, message_id="m-2", taskId=question["id"])
        (part,) = request["params"]["message"]["parts"]
        part["metadata"] = {"interruptId": ids[0]}
        request["params"]["message"]["parts"].append({**part, "metadata": {}})
        error = (await client.post("/", json=request)).json()["error"]
    assert (error["code"], all(each in error["message"] for each in ids)) == (-32602, True)
    assert paid == []


# ── A RequestInput ────────────────────────────────────────────────────────────────────────────────────────────────────


def asking(schema: Any) -> Workflow:
    """Return a workflow that asks for a value with this schema, and answers with the value's repr."""

    async def ask_client(node_input: Any) -> AsyncGenerator[Any, None]:
        yield RequestInput(message="Which?", response_schema=schema)

    def show(node_input: Any) -> str:
        return repr(node_input)

    return Workflow(name="root", edges=[("START", ask_client, show)])


class CityInput(BaseModel):
    """Schema of an answer."""

    name: str


@pytest.mark.parametrize(
    ("schema", "bad", "why", "good", "shown"),
    [
        (int, "three", ": It must be a whole number.", "3", "3"),
        (bool, "perhaps", ": It must be true or false.", "no", "False"),
        (list[str], "a", ": It must be a list.", '["a"]', "['a']"),
        (CityInput, "Rome", ": It must be an object.", {"name": "Rome"}, "{'name': 'Rome'}"),
        (CityInput, {"name": 5}, ", in name: It must be a text.", '{"name": "Rome"}', "{'name': 'Rome'}"),
        (CityInput, {"city": "Rome"}, ": name is missing.", {"name": "Rome"}, "{'name': 'Rome'}"),
        (str, {"a": 1}, ": It must be a text.", "42", "'42'"),
    ],
)
async def test_answer_violating_schema_repeats_interrupt(
    dialect: str, schema: Any, bad: Any, why: str, good: Any, shown: str
) -> None:
    async with http(parts(served(asking(schema))).app()) as client:
        question = await ask(client, dialect)
        again = await answer(client, dialect, question, bad)
        assert state(again) == "INPUT_REQUIRED"
        assert str(answer_text(again)).startswith(f"The answer does not fit the question{why} Send ")
        done = await answer(client, dialect, question, good, message_id="m-3")
    assert (state(done), answer_text(done)) == ("COMPLETED", shown)


class CityInCountry(CityInput):
    """Schema of an answer in another deployment."""

    country: str


@pytest.mark.parametrize(
    ("asked", "deployed", "bad", "good"),
    [
        (CityInput, CityInCountry, {"country": "Italy"}, {"name": "Rome"}),
        (CityInCountry, CityInput, {"name": "Rome"}, {"name": "Rome", "country": "Italy"}),
    ],
)
async def test_answer_is_checked_by_schema_that_client_was_shown(
    asked: Any, deployed: Any, bad: Any, good: Any
) -> None:
    """A deployment changes the schema while the question waits: ADK keeps the schema of the question."""
    sessions = InMemorySessionService()
    service = parts(served(asking(asked), sessions))
    async with http(service.app()) as client:
        question = await ask(client, "SendMessage")
    async with http(parts(served(asking(deployed), sessions), service.store).app()) as client:
        again = await answer(client, "SendMessage", question, bad)
        shown = [each["schema"] for each in again["status"]["message"]["metadata"]["interrupts"]]
        assert (state(again), shown) == ("INPUT_REQUIRED", [ordered(asked.model_json_schema())])
        done = await answer(client, "SendMessage", question, good, message_id="m-3")
    assert (state(done), answer_text(done)) == ("COMPLETED", repr(good))


# ── A credential ──────────────────────────────────────────────────────────────────────────────────────────────────────

CODE = OAuthFlowAuthorizationCode(authorizationUrl="https://login.test/auth", tokenUrl="https://login.test/token")
WANTED: dict[str, AuthConfig] = {
    "oauth2": AuthConfig(
        auth_scheme=OAuth2(flows=OAuthFlows(authorizationCode=CODE)),
        raw_auth_credential=AuthCredential(
            auth_type=AuthCredentialTypes.OAUTH2,
            oauth2=OAuth2Auth(client_id="client", client_secret="the-client-secret", redirect_uri="https://app.test/"),
        ),
    ),
    "apiKey": AuthConfig(auth_scheme=APIKey.model_validate({"in": "header", "name": "x-key"})),
    "bearer": AuthConfig(auth_scheme=HTTPBearer()),
}


def given_credential(kind: str, credential: AuthCredential) -> str | None:
    if kind == "oauth2":
        return credential.oauth2.access_token if credential.oauth2 else None
    if kind == "apiKey":
        return credential.api_key
    return credential.http.credentials.token if credential.http else None


def calendar(kind: str, used: list[str | None]) -> LlmAgent:
    def meetings(tool_context: ToolContext) -> str:
        """List the meetings."""
        config = WANTED[kind].model_copy(deep=True)
        credential = tool_context.get_auth_response(config)
        if credential is None:
            tool_context.request_credential(config)
            return "waiting"
        used.append(given_credential(kind, credential))
        return "none"

    return LlmAgent(name="root", model=scripted_model([call("meetings", "call-1")], ["No meetings."]), tools=[meetings])


FORMS: dict[str, list[Any]] = {
    "oauth2": [
        "the-user-token",
        {"accessToken": "the-user-token"},
        {"authType": "oauth2", "oauth2": {"accessToken": "the-user-token"}},
    ],
    "apiKey": ["the-user-token", {"authType": "apiKey", "apiKey": "the-user-token"}],
    "bearer": ["the-user-token"],
}


@pytest.mark.parametrize(("kind", "given"), [(kind, given) for kind, forms in FORMS.items() for given in forms])
async def test_credential_from_client_reaches_tool_but_not_log(
    dialect: str, kind: str, given: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Answer a task in AUTH_REQUIRED: no log line and no message has the credential or the agent's own secret."""
    caplog.set_level(logging.INFO)
    # Search aion_core's debug logs too, but of other packages only the logs from level INFO.
    caplog.set_level(logging.DEBUG, "aion_core")
    used: list[str | None] = []
    async with http(parts(served(calendar(kind, used))).app()) as client:
        question = await ask(client, dialect)
        assert state(question) == "AUTH_REQUIRED"
        assert "the-client-secret" not in str(question)
        if kind == "oauth2":
            assert "https://login.test/auth" in str(answer_text(question))
        done = await answer(client, dialect, question, given)
    assert (state(done), answer_text(done), used) == ("COMPLETED", "No meetings.", ["the-user-token"])
    assert "the-user-token" not in caplog.text
    assert "the-client-secret" not in caplog.text


async def test_credential_is_requested_once_per_context(dialect: str) -> None:
    """The session stores the credential, so that ADK's authenticated tools find it in later turns."""
    used: list[str | None] = []

    def meetings(credential: AuthCredential) -> str:
        """List the meetings."""
        used.append(credential.api_key)
        return "none"

    tool = AuthenticatedFunctionTool(func=meetings, auth_config=WANTED["apiKey"].model_copy(deep=True))
    model = scripted_model([call("meetings")], ["No meetings."], [call("meetings")], ["Still none."])
    async with http(parts(served(LlmAgent(name="root", model=model, tools=[tool]))).app()) as client:
        question = await ask(client, dialect)
        assert state(question) == "AUTH_REQUIRED"
        done = await answer(client, dialect, question, "the-user-token")
        assert answer_text(done) == "No meetings."
        again = await ask(client, dialect, "and now?", message_id="m-3", contextId=question["contextId"])
    assert (state(again), answer_text(again)) == ("COMPLETED", "Still none.")
    assert used == ["the-user-token", "the-user-token"]
