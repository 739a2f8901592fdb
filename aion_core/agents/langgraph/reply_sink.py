"""`ReplySink` of a graph's turn."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.config import get_stream_writer
from langgraph.constants import TAG_NOSTREAM

from aion_core.agents.helper_calls import DurableReply, HelperCall, Reaction
from aion_core.agents.reply_sink import TurnReplySink
from aion_core.authoring.emit import running_node, write_emission
from aion_core.engine.agent import TurnRequest


class GraphReplySink(TurnReplySink):
    """`ReplySink` of one turn of a graph.

    Nodes send their replies through LangGraph's custom stream, so that replies keep their order among the other stream
    events. A node that runs again, also in the turn after an interrupt, gives its replies the same ids.
    """

    def __init__(self, request: TurnRequest) -> None:
        super().__init__(request, _send, _write, ids_of=request.task.id, site=running_node)

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Tag the model calls in the block as `nostream`, so that LangGraph does not stream them.

        See `ReplySink.streaming`.
        """
        config = var_child_runnable_config.get() or {}
        quiet = var_child_runnable_config.set({**config, "tags": [*(config.get("tags") or []), TAG_NOSTREAM]})
        try:
            yield
        finally:
            with suppress(ValueError):
                var_child_runnable_config.reset(quiet)


async def _send(call: HelperCall) -> None:
    """Write a call to the graph's custom stream. The runner records a reply or a reaction before the next checkpoint."""
    if isinstance(call, DurableReply | Reaction):
        write_emission(get_stream_writer(), call)
    else:
        _write(call)


def _write(call: HelperCall) -> None:
    get_stream_writer()(call)
