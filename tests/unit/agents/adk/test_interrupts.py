"""What an ADK agent waits for, through HTTP: a long-running tool's result, a confirmation, a credential."""

import logging
from typing import Any

import httpx
import pytest
from fastapi.openapi.models import APIKey, APIKeyIn, HTTPBearer, OAuth2, OAuthFlowAuthorizationCode, OAuthFlows
from google.adk.agents import LlmAgent, ParallelAgent, SequentialAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.auth import AuthConfig, AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext
from google.adk.tools.authenticated_function_tool import AuthenticatedFunctionTool

from tests.support.adk import DIALECTS, ask, ask_parts, call, history, said, saying, served, texts
from tests.support.service import http, parts, send


@pytest.fixture(params=DIALECTS, ids=["v1", "v0.3"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def state(task: dict[str, Any]) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_")


def data(task: dict[str, Any]) -> list[Any]:
    return [part["data"] for part in task["status"]["message"]["parts"] if "data" in part]


async def answer(client: httpx.AsyncClient, dialect: str, task: dict[str, Any], text: Any, **message: Any) -> Any:
    """The task once the answer is given: a text, or data."""
    given = {"text": text} if isinstance(text, str) else {"data": text}
    message = {"message_id": "m-2", "taskId": task["id"], "contextId": task["contextId"], **message}
    return await ask_parts(client, dialect, given, **message)


# ── A long-running tool ───────────────────────────────────────────────────────────────────────────────────────────────


def approve(amount: int) -> dict[str, Any] | None:
    """Ask a manager."""
    return {"status": "pending"} if amount > 100 else None


def expenses(amount: int, *scripts: list[Any]) -> tuple[LlmAgent, Any]:
    waiting: list[list[Any]] = [["Your manager is asked."]] if amount > 100 else []
    model = saying([call("approve", "call-1", amount=amount)], *waiting, *scripts)
    return LlmAgent(name="root", model=model, tools=[LongRunningFunctionTool(func=approve)]), model


async def test_a_long_running_tool_asks_and_its_result_resumes_the_run(dialect: str) -> None:
    """Section 3: with a text."""
    root, model = expenses(50, ["Paid."])
    async with http(parts(served(root)).app()) as client:
        asked = await ask(client, dialect)
        assert state(asked) == "INPUT_REQUIRED"
        assert asked["status"]["message"]["metadata"] == {"interruptId": "call-1"}
        assert said(asked) == "approve(amount=50) waits for its result."
        assert data(asked) == [{"name": "approve", "args": {"amount": 50}}]
        done = await answer(client, dialect, asked, "approved")
    assert (state(done), said(done), done["id"]) == ("COMPLETED", "Paid.", asked["id"])
    assert texts(model.seen[-1])[-1] == "user: approve -> {'result': 'approved'}"


async def test_a_result_is_data_too_and_what_the_model_said_meanwhile_is_kept(dialect: str) -> None:
    """Section 3."""
    root, model = expenses(500, ["Paid."])
    async with http(parts(served(root)).app()) as client:
        asked = await ask(client, dialect)
        assert (state(asked), history(asked)) == ("INPUT_REQUIRED", ["hi", "Your manager is asked."])
        done = await answer(client, dialect, asked, {"approved": True})
    assert (state(done), said(done)) == ("COMPLETED", "Paid.")
    assert texts(model.seen[-1])[-1] == "user: approve -> {'approved': True}"


async def test_a_message_without_a_task_answers_the_contexts_question(dialect: str) -> None:
    """Section 3."""
    root, _ = expenses(50, ["Paid."])
    async with http(parts(served(root)).app()) as client:
        asked = await ask(client, dialect)
        done = await ask(client, dialect, "yes", message_id="m-2", contextId=asked["contextId"])
    assert (done["id"], state(done)) == (asked["id"], "COMPLETED")


async def test_an_answer_sent_twice_runs_once(dialect: str) -> None:
    """D17."""
    root, model = expenses(50, ["Paid."])
    async with http(parts(served(root)).app()) as client:
        asked = await ask(client, dialect)
        first = await answer(client, dialect, asked, "yes")
        again = await answer(client, dialect, asked, "yes")
    assert first == again
    assert len(model.seen) == 2


async def test_a_restarted_process_takes_the_answer(dialect: str) -> None:
    """R43: the question lies in the session."""
    root, model = expenses(50, ["Paid."])
    from google.adk.sessions import InMemorySessionService

    sessions = InMemorySessionService()
    service = parts(served(root, sessions))
    async with http(service.app()) as client:
        asked = await ask(client, dialect)
    later = parts(served(LlmAgent(name="root", model=model, tools=root.tools), sessions), service.store)
    async with http(later.app()) as client:
        assert said(await answer(client, dialect, asked, "yes")) == "Paid."


@pytest.mark.parametrize("resumable", [True, False])
async def test_several_questions_are_all_shown_and_an_answer_names_its_own(dialect: str, resumable: bool) -> None:
    """Section 3: an ambiguous answer, or one to nobody's question, is refused before anything runs."""
    calls = [call("approve", "call-1", amount=1), call("approve", "call-2", amount=2)]
    model = saying(calls, ["One to go."], ["Both paid."])
    root = LlmAgent(name="root", model=model, tools=[LongRunningFunctionTool(func=approve)])
    app = App(name="app", root_agent=root, resumability_config=ResumabilityConfig(is_resumable=resumable))
    async with http(parts(served(app)).app()) as client:
        asked = await ask(client, dialect)
        assert asked["status"]["message"]["metadata"]["interrupts"] == [{"id": "call-1"}, {"id": "call-2"}]
        for wrong in ({}, {"metadata": {"interruptId": "call-9"}}):
            request = send("yes", method=dialect, message_id="m-9", taskId=asked["id"], **wrong)
            assert (await client.post("/", json=request)).json()["error"]["code"] == -32602
        assert len(model.seen) == 1
        half = await answer(client, dialect, asked, "yes", metadata={"interruptId": "call-2"})
        assert (state(half), half["status"]["message"]["metadata"]) == ("INPUT_REQUIRED", {"interruptId": "call-1"})
        done = await answer(client, dialect, asked, "yes", message_id="m-3")
    assert state(done) == "COMPLETED"


async def test_a_sub_agents_question_is_answered_where_it_was_asked(dialect: str) -> None:
    """Section 3: the sub-agent before it does not run again, the one after it does."""
    asks = LlmAgent(
        name="asks",
        model=saying([call("approve", "call-1", amount=1)], ["Approved."]),
        tools=[LongRunningFunctionTool(func=approve)],
    )
    root = SequentialAgent(
        name="root",
        sub_agents=[
            LlmAgent(name="first", model=saying(["First."])),
            asks,
            LlmAgent(name="last", model=saying(["Last."])),
        ],
    )
    async with http(parts(served(root)).app()) as client:
        asked = await ask(client, dialect)
        assert (state(asked), history(asked)) == ("INPUT_REQUIRED", ["hi", "First."])
        done = await answer(client, dialect, asked, "yes")
    assert (state(done), said(done), history(done)[-1]) == ("COMPLETED", "Last.", "Approved.")


async def test_a_task_that_is_canceled_while_it_asks_leaves_no_open_call(dialect: str) -> None:
    """Section 3: the next turn's model finds the call answered: canceled."""
    root, model = expenses(50, ["What else?"])
    async with http(parts(served(root)).app()) as client:
        asked = await ask(client, dialect)
        cancel = {"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": asked["id"]}}
        assert "result" in (await client.post("/", json=cancel)).json()
        other = await ask(client, dialect, "and?", message_id="m-2", contextId=asked["contextId"])
    assert (state(other), said(other)) == ("COMPLETED", "What else?")
    assert texts(model.seen[-1])[1:] == [
        "model: approve({'amount': 50})",
        "user: approve -> {'error': 'canceled'}",
        "user: and?",
    ]


# ── A confirmation ────────────────────────────────────────────────────────────────────────────────────────────────────

paid: list[int] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    paid.clear()


def pay(amount: int) -> str:
    """Pay."""
    paid.append(amount)
    return "paid"


def careful(tool_context: ToolContext, amount: int) -> dict[str, Any]:
    """Pay, if that is meant."""
    confirmation = tool_context.tool_confirmation
    if confirmation is None:
        tool_context.request_confirmation(hint="That is a lot.", payload={"amount": amount})
        return {"status": "waiting"}
    if not confirmation.confirmed:
        return {"status": "refused"}
    paid.append(int(confirmation.payload["amount"]))
    return {"status": "paid"}


TOOLS: dict[str, Any] = {"pay": FunctionTool(pay, require_confirmation=True), "careful": careful}


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_tool_that_has_to_be_confirmed_asks_first(dialect: str, tool: str) -> None:
    """Section 3: nothing runs before the yes, and then once."""
    model = saying([call(tool, amount=5)], ["Done."])
    root = LlmAgent(name="root", model=model, tools=[TOOLS[tool]])
    async with http(parts(served(root)).app()) as client:
        asked = await ask(client, dialect)
        assert state(asked) == "INPUT_REQUIRED"
        hint = "" if tool == "pay" else "That is a lot.\n"
        assert said(asked) == f"{hint}May the agent call {tool}(amount=5)? Answer yes or no."
        assert data(asked)[0]["args"] == {"amount": 5}
        assert paid == []
        given = "yes" if tool == "pay" else {"confirmed": True, "payload": {"amount": 3}}
        done = await answer(client, dialect, asked, given)
    assert (state(done), said(done), paid) == ("COMPLETED", "Done.", [5 if tool == "pay" else 3])


@pytest.mark.parametrize("no", ["No.", {"confirmed": False}])
async def test_a_no_is_told_to_the_agent_and_nothing_runs(dialect: str, no: Any) -> None:
    root = LlmAgent(name="root", model=saying([call("pay", amount=5)], ["Then not."]), tools=[TOOLS["pay"]])
    async with http(parts(served(root)).app()) as client:
        done = await answer(client, dialect, await ask(client, dialect), no)
    assert (state(done), said(done), paid) == ("COMPLETED", "Then not.", [])


async def test_an_answer_that_decides_nothing_is_asked_again(dialect: str) -> None:
    model = saying([call("pay", amount=5)], ["Done."])
    root = LlmAgent(name="root", model=model, tools=[TOOLS["pay"]])
    async with http(parts(served(root)).app()) as client:
        asked = await ask(client, dialect)
        again = await answer(client, dialect, asked, "perhaps")
        assert state(again) == "INPUT_REQUIRED"
        assert str(said(again)).startswith("That is no decision.")
        assert again["status"]["message"]["metadata"] == asked["status"]["message"]["metadata"]
        assert len(model.seen) == 1
        done = await answer(client, dialect, asked, "ok", message_id="m-3")
    assert (state(done), paid) == ("COMPLETED", [5])


async def test_branches_that_ask_at_once_are_answered_one_by_one(dialect: str) -> None:
    """Section 3."""
    branches = [
        LlmAgent(name=name, model=saying([call("pay", amount=n)], [f"{name} done."]), tools=[TOOLS["pay"]])
        for n, name in enumerate(("one", "two"), start=1)
    ]
    async with http(parts(served(ParallelAgent(name="root", sub_agents=branches))).app()) as client:
        asked = await ask(client, dialect)
        ids = [each["id"] for each in asked["status"]["message"]["metadata"]["interrupts"]]
        half = await answer(client, dialect, asked, "yes", metadata={"interruptId": ids[0]})
        assert (state(half), len(paid)) == ("INPUT_REQUIRED", 1)
        done = await answer(client, dialect, asked, "yes", message_id="m-3")
    assert (state(done), sorted(paid)) == ("COMPLETED", [1, 2])


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
    "apiKey": AuthConfig(auth_scheme=APIKey(**{"in": APIKeyIn.header, "name": "x-key"})),
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

    return LlmAgent(name="root", model=saying([call("meetings", "call-1")], ["No meetings."]), tools=[meetings])


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
async def test_a_wanted_credential_is_asked_for_and_used(
    dialect: str, kind: str, given: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Section 3, R44: auth-required; the tool gets it, no log does, and nobody is told the agent's own secret."""
    caplog.set_level(logging.INFO)
    # What the SDK and ADK tell a debugger is another matter.
    caplog.set_level(logging.DEBUG, "aion_core")
    used: list[str | None] = []
    async with http(parts(served(calendar(kind, used))).app()) as client:
        asked = await ask(client, dialect)
        assert state(asked) == "AUTH_REQUIRED"
        assert "the-client-secret" not in str(asked)
        if kind == "oauth2":
            assert "https://login.test/auth" in str(said(asked))
        done = await answer(client, dialect, asked, given)
    assert (state(done), said(done), used) == ("COMPLETED", "No meetings.", ["the-user-token"])
    assert "the-user-token" not in caplog.text
    assert "the-client-secret" not in caplog.text


async def test_what_is_no_credential_is_asked_again_without_a_word_of_it(dialect: str) -> None:
    used: list[str | None] = []
    async with http(parts(served(calendar("oauth2", used))).app()) as client:
        asked = await ask(client, dialect)
        again = await answer(client, dialect, asked, {"authType": "nothing-we-know"})
        assert state(again) == "AUTH_REQUIRED"
        assert str(said(again)).startswith("That is not a credential.")
        done = await answer(client, dialect, asked, "the-user-token", message_id="m-3")
    assert (state(done), used) == ("COMPLETED", ["the-user-token"])


async def test_a_credential_is_asked_for_once_in_a_conversation(dialect: str) -> None:
    """ADK's authenticated tools: it is kept where the deployment keeps sessions, for the next turn."""
    used: list[str | None] = []

    def meetings(credential: AuthCredential) -> str:
        """List the meetings."""
        used.append(credential.api_key)
        return "none"

    tool = AuthenticatedFunctionTool(func=meetings, auth_config=WANTED["apiKey"].model_copy(deep=True))
    model = saying([call("meetings")], ["No meetings."], [call("meetings")], ["Still none."])
    async with http(parts(served(LlmAgent(name="root", model=model, tools=[tool]))).app()) as client:
        asked = await ask(client, dialect)
        assert state(asked) == "AUTH_REQUIRED"
        done = await answer(client, dialect, asked, "the-user-token")
        assert said(done) == "No meetings."
        again = await ask(client, dialect, "and now?", message_id="m-3", contextId=asked["contextId"])
    assert (state(again), said(again)) == ("COMPLETED", "Still none.")
    assert used == ["the-user-token", "the-user-token"]
