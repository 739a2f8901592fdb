"""Durability of ADK's `RemoteA2aAgent`: within a turn, its runs send their messages by durable calls."""

import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from contextvars import ContextVar
from importlib import import_module
from threading import Thread
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.workflow import BaseNode

from aion_core.agents.adk.agent_tree import nodes_below
from aion_core.agents.adk.remote_agents.running_task import follow_task, interceptor_reads_task
from aion_core.agents.adk.remote_agents.turn_calls import RemoteTurn
from aion_core.protocol.types import Message, Task, TaskState

_MODULE = "google.adk.a2a.agent._remote_a2a_agent"
_DURABLE = "_aion_durable"

remote_turn: ContextVar[RemoteTurn | None] = ContextVar("aion_adk_remote_turn", default=None)
"""The running turn, for the remote agents that it calls; None outside of a turn."""


def make_durable() -> None:
    """Make the runs of ADK's RemoteA2aAgent durable within a turn, and limit the answers that its HTTP clients read.

    A repeated call has no effect.

    It does nothing until the author's code has imported the class, because the import of the class takes long.
    """
    module = sys.modules.get(_MODULE)
    agent_type: Any = getattr(module, "RemoteA2aAgent", None)
    if agent_type is None or getattr(agent_type._run_async_impl, _DURABLE, False):
        return
    original = agent_type._run_async_impl

    async def _run_async_impl(self: Any, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        turn = remote_turn.get()
        if turn is None:
            events = original(self, ctx)
        else:
            # Import late: most agents call no remote agent, and this imports the A2A client.
            from aion_core.agents.adk.remote_agents.run import RemoteRun

            events = RemoteRun(self, ctx, turn, original).events()
        async with aclosing(events) as stream:
            async for event in stream:
                yield event

    by_url_or_file = agent_type._resolve_agent_card

    async def _resolve_agent_card(self: Any, ctx: InvocationContext | None = None) -> Any:
        turn = remote_turn.get()
        if turn is None or self._agent_card_source not in turn.remotes:
            return await by_url_or_file(self, ctx)
        async with turn.remotes.client(self._agent_card_source) as client:
            return await client.card()

    any_client = agent_type._ensure_httpx_client

    async def _ensure_httpx_client(self: Any) -> Any:
        from aion_core.agent_client.bounded import bounded
        from aion_core.agent_client.limits import OF_AGENTS

        return bounded(await any_client(self), OF_AGENTS)

    compat: Any = vars(module)["_compat"]
    whole_copy = compat.a2a_to_dict

    def a2a_to_dict(given: Any, **options: Any) -> Any:
        is_copy = remote_turn.get() is not None and isinstance(given, Task | Message)
        return ids_and_state(given) if is_copy else whole_copy(given, **options)

    whole_task = compat.make_stream_normalizer

    def make_stream_normalizer() -> Any:
        if remote_turn.get() is not None and not interceptor_reads_task.get():
            return follow_task()
        # ADK imports this package here. Without SQLAlchemy it keeps an ImportError, whose traceback would keep the frames of
        # all callers, and so the whole answer: import it in a thread, which has no such callers.
        importing = Thread(target=import_module, args=["a2a.server.tasks"])
        importing.start()
        importing.join()
        return whole_task()

    compat.a2a_to_dict, compat.make_stream_normalizer = a2a_to_dict, make_stream_normalizer
    setattr(_run_async_impl, _DURABLE, True)
    agent_type._ensure_httpx_client = _ensure_httpx_client
    agent_type._run_async_impl = _run_async_impl
    agent_type._resolve_agent_card = _resolve_agent_card


def ids_and_state(message: Task | Message) -> dict[str, Any]:
    """Return what ADK reads of a task or message in the metadata of an event.

    ADK puts the whole request into each event, and the whole task as it is by then: together the square of an answer.
    """
    if isinstance(message, Task):
        status = {"state": TaskState.Name(message.status.state)}
        return {"id": message.id, "contextId": message.context_id, "status": status}
    return {"messageId": message.message_id, "contextId": message.context_id, "taskId": message.task_id}


def is_remote_agent(node: BaseNode) -> bool:
    """Return True for a RemoteA2aAgent that runs as ADK's class does, so that its calls are durable."""
    agent_type: Any = getattr(sys.modules.get(_MODULE), "RemoteA2aAgent", None)
    return (
        agent_type is not None
        and isinstance(node, agent_type)
        and type(node)._run_async_impl is agent_type._run_async_impl
    )


def pass_answers_on(root: BaseNode) -> None:
    """Let each RemoteA2aAgent that is a workflow's node run again with the answer to the remote agent's question.

    By default ADK takes the answer for the node's output, and the remote agent never receives it.
    """
    for _, node in nodes_below(root):
        if is_remote_agent(node) and "rerun_on_resume" not in node.model_fields_set:
            node.rerun_on_resume = True


def remote_agent_named(root: BaseNode, name: str) -> Any:
    """Return the RemoteA2aAgent with this name: a sub-agent, a node, or an agent that is a tool; None if there is none."""
    return next((node for node in _agents(root) if node.name == name and is_remote_agent(node)), None)


def _agents(root: BaseNode) -> Iterator[BaseNode]:
    """Yield all nodes below the root, and those below the agents that are tools."""
    seen, found = set[int](), [root]
    while found:
        for _, node in nodes_below(found.pop()):
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            tools = [getattr(tool, "agent", None) for tool in getattr(node, "tools", ())]
            found += [tool for tool in tools if isinstance(tool, BaseNode)]
