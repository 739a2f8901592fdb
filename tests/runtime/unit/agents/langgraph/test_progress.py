"""Steps of a graph that count as progress of its turn: those of nodes that have finished in this process."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from aion_core.engine.agent import StepCompleted
from tests.runtime.contract.driven import DrivenConversation
from tests.support.clock import ManualClock
from tests.support.savers import begin, memory_savers


class _Cut(Exception):
    """End of the process in the middle of a node."""


def in_a_row(*names: str, cut_in: str, within: Any = None) -> Any:
    """Return a graph with these nodes in a row. The process ends in the node `cut_in`; `sub` is the graph `within`."""

    def node(name: str) -> Any:
        def run(_: Any) -> Any:
            if name == cut_in:
                raise _Cut
            return {"messages": [AIMessage(name)]}

        return run

    builder: Any = StateGraph(MessagesState)
    for before, name in zip([START, *names], names, strict=False):
        builder.add_node(name, within if name == "sub" else node(name))
        builder.add_edge(before, name)
    return builder.compile()


def nested(cut_in: str) -> Any:
    return in_a_row("a", "sub", "d", cut_in=cut_in, within=in_a_row("b", "c", cut_in=cut_in))


@pytest.mark.parametrize(
    ("make", "cuts", "steps"),
    [
        (lambda cut_in: in_a_row("a", "b", "c", cut_in=cut_in), ["a", "a", "b", "b", "c", ""], [0, 0, 1, 0, 1, 1]),
        (lambda cut_in: in_a_row("a", cut_in=cut_in), ["a", "a", "a"], [0, 0, 0]),
        (nested, ["b", "b", "c", "c", "d", "d"], [1, 0, 1, 0, 2, 0]),
    ],
    ids=["row", "one", "nested"],
)
async def test_repeated_node_of_graph_is_no_progress(make: Any, cuts: Sequence[str], steps: Sequence[int]) -> None:
    """LangGraph emits the checkpoint from which a run resumes again: no node has finished since then."""
    clock = ManualClock()
    savers = memory_savers(clock)
    conversation = DrivenConversation.of(await begin(savers.tasks, clock))
    counted = []
    for cut_in in cuts:
        heard: list[Any] = []
        with suppress(_Cut):
            await conversation.run(make(cut_in), savers, heard=heard.append)
        counted.append(sum(isinstance(each, StepCompleted) for each in heard))
    assert counted == steps
