"""Requests for a credential that the client refuses, or answers for a workflow node or in an unusual form."""

from collections.abc import Callable
from typing import Any

import pytest
from google.adk import Event, Workflow
from google.adk.agents import BaseAgent, LlmAgent, ParallelAgent, SequentialAgent
from google.adk.agents.context import Context
from google.adk.agents.invocation_context import InvocationContext
from google.adk.auth import AuthConfig
from google.adk.events import EventActions
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import node
from google.genai import types as genai

from aion_core.agents.adk.credentials import credential_response, refusal_of
from aion_core.agents.client_answers import InvalidResumeInput
from aion_core.engine.agent_options import AfterCrash
from tests.runtime.unit.agents.adk.test_resumption import patient
from tests.runtime.unit.agents.asking_agents import oauth
from tests.support.adk import (
    CrashingSessions,
    DecidingLlm,
    answer_text,
    ask,
    ask_parts,
    call,
    earlier,
    scripted_model,
    served,
    task_of,
    texts,
)
from tests.support.clock import ManualClock
from tests.support.rows import each_row
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskStore

REFUSALS: list[Any] = ["no", "Cancel.", {"error": "access_denied"}, "https://app.test/?error=access_denied"]


def state(task: dict[str, Any]) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_")


def given(answer: Any) -> dict[str, Any]:
    return {"text": answer} if isinstance(answer, str) else {"data": answer}


def repos(tool_context: ToolContext) -> dict[str, Any]:
    """List the repositories."""
    found = tool_context.get_auth_response(oauth("key"))
    if not found or not found.oauth2 or not found.oauth2.access_token:
        tool_context.request_credential(oauth("key"))
        return {"status": "waits for sign-in"}
    return {"token": found.oauth2.access_token}


def lister(*scripts: list[Any], name: str = "root") -> LlmAgent:
    return LlmAgent(name=name, model=scripted_model([call("repos", f"call-{name}")], *scripts), tools=[repos])


def alone(agent: LlmAgent) -> BaseAgent | Workflow:
    return agent


def in_sequence(agent: LlmAgent) -> BaseAgent | Workflow:
    return SequentialAgent(name="root", sub_agents=[LlmAgent(name="first", model=scripted_model(["First."])), agent])


def in_parallel(agent: LlmAgent) -> BaseAgent | Workflow:
    return ParallelAgent(name="root", sub_agents=[LlmAgent(name="other", model=scripted_model(["Other."])), agent])


def in_workflow(agent: LlmAgent) -> BaseAgent | Workflow:
    return Workflow(name="root", edges=[("START", agent)])


@pytest.mark.parametrize("place", [alone, in_sequence, in_parallel, in_workflow])
async def test_tool_gets_error_of_refused_credential(
    dialect: str, place: Callable[[LlmAgent], BaseAgent | Workflow]
) -> None:
    """Refuse a credential: the model gets the error as the result of the tool, in the next turn too."""
    agent = lister(["I cannot list them."], ["What else?"], name="lister")
    async with http(parts(served(place(agent))).app()) as client:
        asked = await ask(client, dialect)
        assert state(asked) == "AUTH_REQUIRED"
        done = await ask_parts(client, dialect, {"text": "no"}, message_id="m-2", taskId=asked["id"])
    assert (state(done), answer_text(done)) == ("COMPLETED", "I cannot list them.")
    seen = texts(agent.model.seen[-1])  # type: ignore[union-attr]
    assert [each for each in seen if "repos ->" in each] == ["user: repos -> {'error': 'access_denied'}"]


async def test_conversation_continues_after_refused_credential(dialect: str) -> None:
    agent = lister(["I cannot list them."], ["What else?"])
    async with http(parts(served(agent)).app()) as client:
        asked = await ask(client, dialect)
        await ask_parts(client, dialect, {"text": "no"}, message_id="m-2", taskId=asked["id"])
        other = await ask(client, dialect, "and?", message_id="m-3", contextId=asked["contextId"])
    assert (state(other), answer_text(other)) == ("COMPLETED", "What else?")
    assert texts(agent.model.seen[-1]) == [  # type: ignore[union-attr]
        "user: hi",
        "model: repos({})",
        "user: repos -> {'error': 'access_denied'}",
        "model: I cannot list them.",
        "user: and?",
    ]


def node_workflow(config: AuthConfig, got: list[Any]) -> Workflow:
    @node(auth_config=config, rerun_on_resume=True)
    def listing(ctx: Context) -> dict[str, Any]:
        found = ctx.get_auth_response(config)
        assert found is not None
        assert found.oauth2 is not None
        got.append((found.oauth2.access_token, (found.model_extra or {}).get("error")))
        return {"token": bool(found.oauth2.access_token)}

    def display(node_input: dict[str, Any]) -> Any:
        yield Event(message=f"Result {node_input}")  # type: ignore[call-arg]  # ADK makes the content of it

    return Workflow(name="root", edges=[("START", listing, display)])


TOKEN = {"access_token": "t-1"}


@pytest.mark.parametrize(
    "answer",
    ["t-1", {"accessToken": "t-1"}, {"auth_type": "oauth2", "oauth2": TOKEN}, "a complete AuthConfig"],
    ids=["text", "fields", "AuthCredential", "AuthConfig"],
)
async def test_credential_for_workflow_node_needs_no_state(dialect: str, answer: Any) -> None:
    """The server adds the state of the request: ADK would fail the turn without it."""
    got: list[Any] = []
    async with http(parts(served(node_workflow(oauth("key"), got))).app()) as client:
        asked = await ask(client, dialect)
        if answer == "a complete AuthConfig":
            _, data = asked["status"]["message"]["parts"]
            answer = {**data["data"]["authConfig"], "exchangedAuthCredential": {"authType": "oauth2", "oauth2": TOKEN}}
        done = await ask_parts(client, dialect, given(answer), message_id="m-2", taskId=asked["id"])
    assert (state(done), answer_text(done)) == ("COMPLETED", "Result {'token': True}")
    assert got == [("t-1", None)]


@pytest.mark.parametrize("answer", REFUSALS, ids=map(str, REFUSALS))
async def test_workflow_node_finds_error_of_refused_credential(dialect: str, answer: Any) -> None:
    got: list[Any] = []
    async with http(parts(served(node_workflow(oauth("key"), got))).app()) as client:
        asked = await ask(client, dialect)
        done = await ask_parts(client, dialect, given(answer), message_id="m-2", taskId=asked["id"])
    assert (state(done), answer_text(done)) == ("COMPLETED", "Result {'token': False}")
    assert got == [(None, "access_denied")]


class Repositories(BaseToolset):
    """Toolset that needs a credential before it lists its tools."""

    def get_auth_config(self) -> AuthConfig:
        return oauth("key")

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return []


async def test_task_fails_if_client_refuses_credential_of_toolset(dialect: str) -> None:
    agent = LlmAgent(name="root", model=scripted_model(["Hi."]), tools=[Repositories()])
    async with http(parts(served(agent)).app()) as client:
        asked = await ask(client, dialect)
        assert state(asked) == "AUTH_REQUIRED"
        done = await ask_parts(client, dialect, {"text": "no"}, message_id="m-2", taskId=asked["id"])
    assert state(done) == "FAILED"
    assert answer_text(done) == "The credential for the agent's tools was refused (access_denied)."


ARGS = {"functionCallId": "c", "authConfig": oauth("key").model_dump(mode="json", by_alias=True, exclude_none=True)}


def test_refusal_keeps_description_of_error() -> None:
    error = {"error": "consent_required", "error_description": "Ask your admin."}
    assert refusal_of(ARGS, {**error, "secret": "s"}) == error
    address = "https://app.test/#error=consent_required&error_description=Ask+your+admin."
    credential = {"authType": "oauth2", "oauth2": {"authResponseUri": address}}
    for answer in (address, {"authResponseUri": address}, credential, {"exchangedAuthCredential": credential}):
        assert refusal_of(ARGS, answer) == error


@each_row("answer", ["t-1", {"accessToken": "t-1"}, {"error": 1}, {"error": ""}, ["no"], "https://[x"])
def test_other_answers_do_not_refuse_credential(answer: Any) -> None:
    assert refusal_of(ARGS, answer) is None


@pytest.mark.parametrize("answer", ["https://app.test/?code=1&state=other", "https://app.test/?error=e&state=other"])
def test_address_of_another_sign_in_is_refused(answer: str) -> None:
    known = oauth("key")
    known.exchanged_auth_credential = known.raw_auth_credential.model_copy(deep=True)  # type: ignore[union-attr]
    known.exchanged_auth_credential.oauth2.state = "mine"  # type: ignore[union-attr]
    args = {"functionCallId": "c", "authConfig": known.model_dump(mode="json", by_alias=True, exclude_none=True)}
    for given in (answer, {"auth_type": "oauth2", "oauth2": {"auth_response_uri": answer}}):
        with pytest.raises(InvalidResumeInput, match="another sign-in"):
            credential_response(args, given) if refusal_of(args, given) is None else None


@each_row("answer", ["https://[x", "https://app.test/?state=s", "ключ", {"oauth2": {}}, ["a"], 7, None])
def test_error_about_credential_does_not_quote_it(answer: Any) -> None:
    with pytest.raises(InvalidResumeInput) as raised:
        credential_response(ARGS, answer)
    assert str(raised.value).startswith("That is not a credential.")
    assert "app.test" not in str(raised.value)


async def test_refused_credential_stays_refused_after_crash() -> None:
    """Crash after each stored event of the turn with the refusal: the tool does not run again, and nothing is asked."""

    def decide(seen: list[str]) -> list[Any]:
        return ["I cannot list them."] if any("access_denied" in line for line in seen) else [call("repos", "call-1")]

    asked = ended = 0
    for place in range(100):
        if place and place <= asked:
            continue
        root = LlmAgent(name="root", model=DecidingLlm(decide=decide), tools=[repos])
        clock, sessions = ManualClock(), CrashingSessions(place)
        made = parts(served(root, sessions), MemoryTaskStore(clock), clock, lease_seconds=10_000, blocking_wait=1e9)
        async with http(made.app()) as client:
            question = task_of(await patient(client.post("/", json=send()), clock))
            asked, request = sessions.appends, send("no", message_id="m-2", taskId=question["id"])
            done = task_of(await patient(client.post("/", json=request), clock))
        assert (state(done), answer_text(done)) == ("COMPLETED", "I cannot list them."), place
        ended = ended or sessions.appends
        if place >= ended:
            break
    assert ended > asked + 2


class Witness(BaseAgent):
    """Agent that tells how many events of the user it sees, and that ADK cannot resume."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        count = sum(event.author == "user" for event in ctx.session.events)
        yield Event(author=self.name, content=genai.ModelContent(f"{count} events of the user"))
        yield Event(author=self.name, actions=EventActions(state_delta={"ended": True}))


async def test_restarted_turn_refuses_credential_once() -> None:
    """Cut a turn with a refusal at each of its events: the restart neither loses the refusal nor sees it twice."""

    async def decline(*crash_at: int) -> tuple[tuple[str, str | None], int, int]:
        def decide(seen: list[str]) -> list[Any]:
            return [seen[-1]] if "repos ->" in seen[-1] else [call("repos", "call-1")]

        lists = LlmAgent(name="lists", model=DecidingLlm(decide=decide), tools=[repos])
        root = SequentialAgent(name="root", sub_agents=[lists, Witness(name="witness")])
        clock, sessions = ManualClock(), CrashingSessions(*crash_at)
        agent = served(root, sessions, resume=AfterCrash.RESTART)
        made = parts(agent, MemoryTaskStore(clock), clock, lease_seconds=10_000, blocking_wait=1e9)
        async with http(made.app()) as client:
            question = task_of(await patient(client.post("/", json=send()), clock))
            asked, request = sessions.appends, send("no", message_id="m-2", taskId=question["id"])
            done = task_of(await patient(client.post("/", json=request), clock))
        told = [text for text in earlier(done) if "access_denied" in text]
        assert told == ["user: repos -> {'error': 'access_denied'}"]
        return (state(done), answer_text(done)), asked, sessions.appends

    whole, asked, ended = await decline()
    assert whole == ("COMPLETED", "3 events of the user")
    for place in range(asked + 1, ended + 1):
        assert (await decline(place))[0] == whole, place
