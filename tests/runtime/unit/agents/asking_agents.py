"""Agents that ask in each form of question, and the values that their code gets as answers."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

from fastapi.openapi.models import OAuth2, OAuthFlowAuthorizationCode, OAuthFlows
from google.adk import Workflow
from google.adk.agents import LlmAgent
from google.adk.auth import AuthConfig, AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.events import RequestInput
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import FunctionNode
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessageChunk
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel

from tests.runtime.golden.graphs import ScriptedModel
from tests.support.adk import call, scripted_model, served

Got = list[Any]
"""Values that the agent's code gets as answers, in their order."""


class Seats(BaseModel):
    """Answer by a class."""

    city: str
    seats: int


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "seats": {"type": "integer", "minimum": 1}},
    "required": ["city", "seats"],
}
"""The same answer by a JSON Schema that the author has written."""

REQUEST = {
    "action_request": {"action": "send_mail", "args": {"to": "ada"}},
    "description": "Send the mail to ada?",
    "config": {"allow_accept": True, "allow_edit": True, "allow_respond": False, "allow_ignore": True},
}
FREE_REQUEST = {**REQUEST, "config": {**REQUEST["config"], "allow_respond": True}}  # type: ignore[dict-item]


def interrupting(value: Any, **options: Any) -> Callable[[Got, int], Any]:
    """Return a maker of graphs that ask with `interrupt(value)`, in several nodes at once."""

    def graph(got: Got, questions: int) -> Any:
        def ask(_: Any) -> dict[str, Any]:
            answer = interrupt(value, **options)
            got.append(answer)
            return {"messages": [("ai", "Thank you.")]}

        made: Any = StateGraph(MessagesState)
        for number in range(questions):
            made.add_node(f"ask{number}", ask).add_edge(START, f"ask{number}")
        return made

    return graph


class ToolModel(ScriptedModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def reviewed(got: Got, questions: int) -> Any:
    """Return an agent whose calls of a tool a person reviews, one by one if there are several."""

    def mail(to: str) -> str:
        """Send a mail."""
        got.append(to)
        return "sent"

    calls = [
        AIMessageChunk(
            content="",
            tool_call_chunks=[
                {"type": "tool_call_chunk", "name": "mail", "args": '{"to": "ada"}', "id": f"c-{n}", "index": n}
            ],
        )
        for n in range(questions)
    ]
    mode: Any = "batched" if questions == 1 else "per_call"
    review: Any = HumanInTheLoopMiddleware(interrupt_on={"mail": True}, interrupt_mode=mode)
    return create_agent(ToolModel(scripts=[calls, ["Done."], ["Done."]]), [mail], middleware=[review])


def confirmed(got: Got, questions: int) -> Any:
    def mail(to: str) -> str:
        """Send a mail."""
        got.append(to)
        return "sent"

    calls = [call("mail", f"call-{n}", to="ada") for n in range(questions)]
    tools: list[Any] = [FunctionTool(mail, require_confirmation=True)]
    return served(LlmAgent(name="root", model=scripted_model(calls, ["Done."], ["Done."]), tools=tools))


def long_running(got: Got, questions: int) -> Any:
    """Return an agent whose model sees the results of a long-running tool, which has returned a ticket."""

    def ask_boss(to: str) -> dict[str, Any]:
        """Ask the boss."""
        return {"status": "pending", "ticket": "T-17"}

    def tell(request: Any) -> str:
        last = request.contents[-1].parts or []
        got.extend(each.function_response.response for each in last if each.function_response)
        return "Done."

    calls = [call("ask_boss", f"call-{n}", to="ada") for n in range(questions)]
    model = scripted_model(calls, ["I have asked."], [tell], [tell])
    return served(LlmAgent(name="root", model=model, tools=[LongRunningFunctionTool(func=ask_boss)]))


def requesting(got: Got, questions: int) -> Any:
    """Return a workflow that asks with `RequestInput`, in several nodes at once."""

    async def ask(node_input: Any) -> AsyncGenerator[Any, None]:
        yield RequestInput(message="Which?", response_schema=Seats)

    def show(node_input: Any) -> None:
        got.append(node_input)

    pairs = [
        (FunctionNode(func=ask, name=f"ask{n}"), FunctionNode(func=show, name=f"show{n}")) for n in range(questions)
    ]
    return served(Workflow(name="root", edges=[("START", *pair) for pair in pairs]))


FLOW = OAuthFlowAuthorizationCode(authorizationUrl="https://id.test/authorize", tokenUrl="http://127.0.0.1:9/token")


def oauth(key: str) -> AuthConfig:
    """Return the request for a credential of OAuth 2, which ADK stores under this key."""
    client = OAuth2Auth(client_id="client", client_secret="the-client-secret", redirect_uri="https://app.test/")
    return AuthConfig(
        auth_scheme=OAuth2(flows=OAuthFlows(authorizationCode=FLOW)),
        raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=client),
        credential_key=key,
    )


def signing_in(got: Got, questions: int) -> Any:
    """Return an agent whose tool needs a token, and whose model sees the tool's result."""

    def repos(tool_context: ToolContext, to: str) -> dict[str, Any]:
        """List the repositories."""
        found = tool_context.get_auth_response(oauth(to))
        if not found or not found.oauth2 or not found.oauth2.access_token:
            tool_context.request_credential(oauth(to))
            return {"status": "waits for sign-in"}
        return {"token": found.oauth2.access_token}

    def tell(request: Any) -> str:
        last = request.contents[-1].parts or []
        got.extend(each.function_response.response for each in last if each.function_response)
        return "Done."

    calls = [call("repos", f"call-{n}", to=f"host-{n}") for n in range(questions)]
    return served(LlmAgent(name="root", model=scripted_model(calls, [tell], [tell], [tell]), tools=[repos]))


ASKING: dict[str, Callable[[Got, int], Any]] = {
    "text": interrupting("Which day?"),
    "dict": interrupting({"prompt": "Which day?", "options": ["Monday", "Tuesday"]}),
    "schema in the value": interrupting({"prompt": "Where?", "response_schema": SCHEMA}),
    "schema": interrupting("Where?", response_schema=SCHEMA),
    "class": interrupting("Where?", response_schema=Seats),
    "middleware": reviewed,
    "inbox": interrupting(REQUEST),
    "inbox list": interrupting([REQUEST]),
    "inbox with response": interrupting([FREE_REQUEST]),
    "confirmation": confirmed,
    "RequestInput": requesting,
    "credential": signing_in,
    "long-running tool": long_running,
}
"""Makers of agents by the form of their question. Each takes the list for the answers, and the number of questions."""
