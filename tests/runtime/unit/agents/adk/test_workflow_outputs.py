"""Outputs of a Workflow's nodes: only the Workflow's own output is the answer."""

from collections.abc import Callable
from typing import Any

import pytest
from google.adk import Event, Workflow
from google.adk.agents import BaseAgent, SequentialAgent
from google.adk.agents.context import Context
from google.adk.events import RequestInput
from google.adk.models.llm_response import LlmResponse
from google.adk.workflow import JoinNode
from google.adk.workflow import node as as_node

from tests.support.adk import answer_text, ask, call, earlier, llm_agent, served
from tests.support.service import http, parts

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*EXPERIMENTAL:UserWarning")


def fetch(node_input: Any) -> Any:
    yield Event(message="Your file is saved.")  # type: ignore[call-arg]  # ADK's constructor converts it to content
    yield Event(output={"token": "internal"})


def secret(node_input: Any) -> dict[str, str]:
    return {"token": "internal"}


def other(node_input: Any) -> str:
    return "Also internal."


def cleanup(node_input: Any) -> None:
    return None


def tell(node_input: Any) -> str:
    return "Told."


def question(node_input: Any) -> Any:
    yield RequestInput(message="Which day?", response_schema=None)


@as_node(rerun_on_resume=True)
async def calls_only(ctx: Context, node_input: Any) -> None:
    await ctx.run_node(as_node(secret), "go")


@as_node(rerun_on_resume=True)
async def returns_other(ctx: Context, node_input: Any) -> str:
    await ctx.run_node(as_node(secret), "go")
    return "Told."


@as_node(rerun_on_resume=True)
async def passes_on(ctx: Context, node_input: Any) -> Any:
    return await ctx.run_node(as_node(tell), "go", use_as_output=True)


def flow(*edges: Any, name: str = "root") -> Workflow:
    return Workflow(name=name, edges=list(edges))


def items(node_input: Any) -> list[str]:
    return ["one", "two"]


def in_task_mode(name: str = "clerk") -> Any:
    return llm_agent([call("finish_task", result="Bob")], name=name, mode="task", description="Asks for the name.")


def joined() -> Workflow:
    join = JoinNode(name="join")
    return flow(("START", tell, join), ("START", other, join))


class Custom(BaseAgent):
    """Agent with an output."""

    async def _run_async_impl(self, ctx: Any) -> Any:
        yield Event(author=self.name, output="Told.")


WORKFLOWS: dict[str, tuple[Callable[[], Any], Any, list[str]]] = {
    "a message before": (lambda: flow(("START", fetch, cleanup)), "Your file is saved.", []),
    "no message": (lambda: flow(("START", secret, cleanup)), None, []),
    "last node": (lambda: flow(("START", fetch, tell)), "Told.", ["Your file is saved."]),
    "an agent before": (lambda: flow(("START", llm_agent(["Hello."], name="model"), secret, cleanup)), "Hello.", []),
    "an agent last": (lambda: flow(("START", secret, llm_agent(["Hello."], name="model"))), "Hello.", []),
    "nested before": (lambda: flow(("START", flow(("START", tell, secret), name="inner"), cleanup)), None, []),
    "nested last": (lambda: flow(("START", secret, flow(("START", other, tell), name="inner"))), "Told.", []),
    "nested without output": (lambda: flow(("START", flow(("START", secret, cleanup), name="inner"))), None, []),
    "task mode before": (lambda: flow(("START", in_task_mode(), cleanup)), None, []),
    "task mode last": (lambda: flow(("START", secret, in_task_mode())), {"result": "Bob"}, []),
    "called node": (lambda: flow(("START", calls_only)), None, []),
    "called node beside an output": (lambda: flow(("START", returns_other)), "Told.", []),
    "called node as output": (lambda: flow(("START", passes_on)), "Told.", []),
    "parallel worker before": (lambda: flow(("START", items, as_node(tell, parallel_worker=True), cleanup)), None, []),
    "parallel worker last": (lambda: flow(("START", items, as_node(tell, parallel_worker=True))), ["Told."] * 2, []),
    "join": (joined, {"tell": "Told.", "other": "Also internal."}, []),
    "side branch": (lambda: flow(("START", tell), ("START", other, secret, cleanup)), "Told.", []),
    "custom agent before": (lambda: flow(("START", Custom(name="custom"), cleanup)), None, []),
    "agents as a node": (
        lambda: flow(("START", SequentialAgent(name="steps", sub_agents=[Custom(name="custom")]))),
        "Told.",
        [],
    ),
    "custom agent": (lambda: Custom(name="root"), "Told.", []),
    "custom agents": (lambda: SequentialAgent(name="root", sub_agents=[Custom(name="custom")]), "Told.", []),
    "sub-agent in task mode": (
        lambda: llm_agent([call("clerk", request="go")], ["Hello Bob."], sub_agents=[in_task_mode()]),
        "Hello Bob.",
        [],
    ),
}


@pytest.mark.parametrize("name", WORKFLOWS)
async def test_only_output_of_the_workflow_is_the_answer(name: str) -> None:
    build, answer, before = WORKFLOWS[name]
    async with http(parts(served(build())).app()) as client:
        task = await ask(client, "SendMessage")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (told(task), earlier(task)) == (answer, ["hi", *before])


def told(task: dict[str, Any]) -> Any:
    """Return the text or data of the answer; None without an answer."""
    if "message" not in task["status"]:
        return None
    (part,) = task["status"]["message"]["parts"]
    return part.get("text") or part["data"]


async def test_workflow_fails_if_only_later_nodes_have_output() -> None:
    """A model fails, and the node after it has an output that is not the Workflow's."""
    failing = llm_agent([LlmResponse(error_code="SAFETY")], name="model")
    async with http(parts(served(flow(("START", failing, secret, cleanup)))).app()) as client:
        task = await ask(client, "SendMessage")
    assert (task["status"]["state"], "SAFETY" in str(answer_text(task))) == ("TASK_STATE_FAILED", True)


RESUMED: dict[str, tuple[Callable[[], Workflow], str | None]] = {
    "question before others": (lambda: flow(("START", secret, question, cleanup)), None),
    "question last": (lambda: flow(("START", secret, question)), "Tuesday"),
    "output beside the question": (lambda: flow(("START", tell), ("START", question, cleanup)), "Told."),
    "nested output beside the question": (
        lambda: flow(("START", flow(("START", secret, tell), name="inner")), ("START", question, cleanup)),
        "Told.",
    ),
    "nested before": (
        lambda: flow(("START", flow(("START", secret, tell), name="inner"), question, cleanup)),
        None,
    ),
    "nested question": (lambda: flow(("START", flow(("START", secret, question), name="inner"))), "Tuesday"),
}


@pytest.mark.parametrize("name", RESUMED)
async def test_answered_question_keeps_output_of_workflow(name: str) -> None:
    """ADK sends the outputs of the earlier turn again, without telling whose they are."""
    build, answer = RESUMED[name]
    async with http(parts(served(build())).app()) as client:
        asked = await ask(client, "SendMessage")
        assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        answers = {"taskId": asked["id"], "contextId": asked["contextId"]}
        task = await ask(client, "SendMessage", "Tuesday", message_id="m-2", **answers)
    assert (task["status"]["state"], told(task)) == ("TASK_STATE_COMPLETED", answer)
