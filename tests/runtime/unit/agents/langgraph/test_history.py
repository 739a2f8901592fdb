"""`thread.history`: the messages of the context, including earlier tasks, with the turn's own message last."""

from collections.abc import Sequence
from typing import Any

import pytest
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from aion.langgraph import AionContext
from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.engine.agent import History, Reply, TurnRequest
from aion_core.engine.records import Turn
from aion_core.protocol.types import Message, Part, Role, Task
from aion_core.table.keys import ContextKey

CONTEXT = ContextKey("owner", "agent", "context")


def message(number: int, role: Role = Role.ROLE_USER) -> Message:
    return Message(message_id=f"m-{number}", role=role, parts=[Part(text=f"text {number}")])


SAID = [message(number, Role.ROLE_AGENT if number % 2 else Role.ROLE_USER) for number in range(6)]
"""Earlier messages of the context; the last two belong to the turn's own task."""
THIS = message(6)


def of_context(*, with_this: bool) -> History:
    """Return a function that reads the stored messages of the context; `with_this` adds the current turn's message."""

    async def history(limit: int, before: str | None) -> Sequence[Message]:
        said = [*SAID, THIS] if with_this else SAID
        ids = [entry.message_id for entry in said]
        older = said[: ids.index(before)] if before in ids else said
        return older[-limit:] if limit else []

    return history


async def seen(history: History | None, *given: Any, **named: Any) -> list[tuple[str, str]]:
    """Return the ids and authors of the messages in a node's history."""
    found: list[tuple[str, str]] = []

    async def node(state: MessagesState, runtime: Runtime[AionContext]) -> dict[str, Any]:
        found.extend((each.id, each.user.id) for each in await runtime.context.thread.history(*given, **named))
        return {}

    graph = StateGraph(MessagesState, context_schema=AionContext).add_node("node", node).add_edge(START, "node")
    task = Task(id="t-1", context_id="context", history=[*SAID[4:], THIS])
    asked = TurnRequest(CONTEXT, Turn("turn-1", "t-1", 1), 1, task, THIS, history=history)
    emissions = [emission async for emission in LangGraphAgent(graph).run(asked)]
    assert isinstance(emissions[-1], Reply)
    return found


def ids(found: list[tuple[str, str]]) -> str:
    return "".join(id_[2:] for id_, _ in found)


@pytest.mark.parametrize("with_this", [True, False])
async def test_thread_history_includes_earlier_tasks_of_same_context(with_this: bool) -> None:
    """The oldest message is first, the turn's own message is last; `limit` bounds their number."""
    history = of_context(with_this=with_this)
    assert ids(await seen(history)) == "0123456"
    assert ids(await seen(history, 3)) == "456"
    assert ids(await seen(history, limit=1)) == "6"
    assert ids(await seen(history, 0)) == ""


@pytest.mark.parametrize("with_this", [True, False])
async def test_thread_history_before_message_excludes_that_message(with_this: bool) -> None:
    history = of_context(with_this=with_this)
    assert ids(await seen(history, 3, "m-6")) == "345"
    assert ids(await seen(history, 2, before="m-3")) == "12"
    assert ids(await seen(history, before="m-0")) == ""


async def test_history_has_only_task_messages_if_context_is_unavailable() -> None:
    assert ids(await seen(None)) == "456"
    assert ids(await seen(None, 1, before="m-6")) == "5"


async def test_thread_history_message_contains_its_author() -> None:
    assert await seen(of_context(with_this=False), 2) == [("m-5", "agent"), ("m-6", "owner")]
