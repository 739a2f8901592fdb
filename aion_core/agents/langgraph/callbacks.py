"""LangChain callbacks of a graph's turn, which observe its model calls, tools and nodes."""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.utils.utils import LC_ID_PREFIX
from langgraph.config import get_stream_writer
from langgraph.errors import GraphBubbleUp

from aion_core.agents.helper_calls import StreamAborted
from aion_core.agents.internal_events import InternalEvents
from aion_core.agents.langgraph.graph import Graph
from aion_core.agents.langgraph.model_calls import is_for_client, mark_quiet
from aion_core.agents.langgraph.unreturned_output import UnreturnedOutput
from aion_core.errors import LeaseLost, StoreError

_OF_LANGGRAPH = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Matches an id that LangGraph gives to a message without one."""


class LangChainCallbacks(BaseCallbackHandler):
    """LangChain callbacks of one turn: log `internal:*` events of its model calls and tools.

    They also pass each model's text to `UnreturnedOutput` before its node ends, report an aborted model call to the
    turn's stream, and mark the model calls that are not for the client.
    """

    run_inline = True  # run callbacks inline, so that the log lines keep the order of the events

    def __init__(
        self, task_id: str, streamed: UnreturnedOutput, graph: Graph, check_lease: Callable[[], None] = lambda: None
    ) -> None:
        """`check_lease` raises LeaseLost if another process may have the turn: then no node begins."""
        self._check_lease = check_lease
        self._internal, self._streamed, self._graph = InternalEvents(task_id), streamed, graph
        self._tools: dict[UUID, str] = {}
        self._visible: set[UUID] = set()
        self._nodes: dict[UUID, str] = {}
        """Namespaces of the running nodes, by run id; empty for a node within a tool."""
        self._within_tools: set[UUID] = set()
        """Run ids of the tools and of everything that they call."""
        self._message_ids: dict[UUID, str] = {}
        """Message ids of the streaming model calls, by run id."""
        self._unnamed: set[UUID] = set()
        """Run ids of the streaming model calls whose chunks have no message id."""
        self._callers: dict[UUID, str] = {}
        """Namespaces of the nodes of running model calls, by run id."""
        self._parsed: dict[UUID, str] = {}
        """Message ids of the texts in LangChain's running output parsers, by run id."""
        self._called: dict[str, list[str]] = {}
        """Message ids of complete model calls, by the namespace of their node."""

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Log `internal:llm-call` with the number of the call in this turn. Mark a call that is not for the client."""
        self._internal.llm_call()
        if metadata is None:
            return
        self._callers[run_id] = metadata.get("langgraph_checkpoint_ns", "")
        is_inner = parent_run_id in self._within_tools
        if not is_inner and is_for_client(self._graph, tags=tags or (), metadata=metadata, parameters=kwargs):
            self._visible.add(run_id)
        else:
            # The mark is in the call's metadata, because LangGraph's handler for the mode "messages" runs later and
            # gets the same dict.
            mark_quiet(metadata)

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Return the output unchanged. LangChain streams a model if one of its callback handlers has this method.

        Without this method, LangChain would check the handler against a protocol before each model call, which is slow.
        """
        return output

    def tap_output_iter(self, run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        """Return the output unchanged, as `tap_output_aiter` does for asynchronous runs."""
        return output

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Mark the model call as streaming, and store its message id."""
        # First check whether a set is empty, as it is for most tokens, because hashing the UUID of each token's run
        # takes time.
        if self._visible and run_id in self._visible:
            self._visible.discard(run_id)
            self._streamed.start(run_id, self._callers.get(run_id, ""))
            found = getattr(getattr(kwargs.get("chunk"), "message", None), "id", None)
            if found and _OF_LANGGRAPH.fullmatch(found):
                found = None
            self._message_ids[run_id] = found or f"{LC_ID_PREFIX}-{run_id}-0"
            if not found:
                self._unnamed.add(run_id)
        if self._unnamed and run_id in self._unnamed and isinstance(chunk := kwargs.get("chunk"), ChatGenerationChunk):
            # Some packages, such as langchain-ollama with `disable_streaming`, report chunks without the message's id.
            # Give them the id of the whole message, because LangGraph gives each of them an id of its own. Its handler may
            # have done so already, as LangChain calls the handlers of a subgraph in any order; the stream has the object.
            chunk.message.id = self._message_ids[run_id]

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Pass the complete message of the model call to `UnreturnedOutput`."""
        self._visible.discard(run_id)
        self._unnamed.discard(run_id)
        self._message_ids.pop(run_id, None)
        caller = self._callers.pop(run_id, "")
        for generation in response.generations[0][:1] if response.generations else ():
            if isinstance(generation, ChatGeneration):
                self._streamed.complete(run_id, generation.message)
                self._called.setdefault(caller, []).append(generation.message.id or "")

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Write a failed model call's abort to the turn's stream, so that the abort follows the chunks of the call."""
        self._visible.discard(run_id)
        self._unnamed.discard(run_id)
        self._callers.pop(run_id, None)
        if message_id := self._message_ids.pop(run_id, ""):
            _abort(message_id)

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Remember the run ids of nodes, of output parsers, and of chains called by tools. Ignore all other chains.

        Raises LeaseLost before a node begins if the lease is lost.
        """
        if parent_run_id in self._within_tools:
            self._within_tools.add(run_id)
        if metadata and kwargs.get("name") == metadata.get("langgraph_node"):
            self._check_before_step()
            self._nodes[run_id] = metadata["langgraph_checkpoint_ns"] if run_id not in self._within_tools else ""
        elif kwargs.get("run_type") == "parser" and isinstance(inputs, BaseMessage) and inputs.id:
            self._parsed[run_id] = inputs.id

    def _check_before_step(self) -> None:
        try:
            self._check_lease()
        except (LeaseLost, StoreError):
            # LangChain only logs the errors of a handler without this attribute.
            self.raise_error = True
            raise

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Remove a node's returned messages from the unreturned output. Record a subgraph's structured response.

        A text that a parser has read as data is a decision for the author's code: it is not said to the client.
        """
        self._within_tools.discard(run_id)
        if (parsed := self._parsed.pop(run_id, "")) and not isinstance(outputs, str | BaseMessage):
            self._streamed.discard([parsed])
            _abort(parsed)
        if (namespace := self._nodes.pop(run_id, None)) is not None:
            self._streamed.remove_returned(outputs)
            if "|" in namespace:
                self._streamed.add_structured(outputs)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Discard the messages of a node's failed attempt. Interrupts and Commands to parent graphs are no failures."""
        self._within_tools.discard(run_id)
        self._parsed.pop(run_id, None)
        namespace = self._nodes.pop(run_id, "")
        if namespace and not isinstance(error, GraphBubbleUp):
            for caller in [each for each in self._called if f"{each}|".startswith(f"{namespace}|")]:
                self._streamed.discard(self._called.pop(caller))
            # Also discard the model calls still running in this attempt, because LangChain reports no error for a model
            # call that was canceled together with its node, as by the node's `timeout`.
            cut = [run for run in self._message_ids if f"{self._callers.get(run, '')}|".startswith(f"{namespace}|")]
            self._streamed.discard([self._message_ids.pop(run) for run in cut])

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], **kwargs: Any) -> None:
        """Log `internal:llm-call`. See `on_chat_model_start`."""
        self._internal.llm_call()

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, *, run_id: UUID, **kwargs: Any) -> None:
        """Log `internal:tool-start` without the tool's arguments."""
        call_id = str(kwargs.get("tool_call_id") or run_id)
        self._tools[run_id] = call_id
        self._within_tools.add(run_id)
        self._internal.tool_start(str((serialized or {}).get("name", "")), call_id)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Log `internal:tool-complete`, with True or False for the tool call's success."""
        self._tool_ended(run_id, success=getattr(output, "status", "success") != "error")

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Log `internal:tool-complete` for a failed tool call."""
        self._tool_ended(run_id, success=False)

    def step_stored(self) -> None:
        """Log `internal:checkpoint` after a step of the graph has been stored."""
        self._internal.checkpoint()

    def _tool_ended(self, run_id: UUID, *, success: bool) -> None:
        self._within_tools.discard(run_id)
        self._internal.tool_complete(self._tools.pop(run_id, str(run_id)), success=success)


def _abort(message_id: str) -> None:
    """Write to the turn's stream that a model call's text is not an answer."""
    # Ignore errors, because outside of a node, or after the end of the stream, LangGraph has no stream writer.
    with suppress(Exception):
        get_stream_writer()(StreamAborted(message_id))
