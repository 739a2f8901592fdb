"""Passes on what LangChain calls back of a turn, from wherever in its graph: model calls, tools, nodes.

The operator's log gets one line of fixed fields for each, without a word of what was said (S3, R38); `Streamed` is told
what a model has said before its node ends; and the turn's own stream, that a call has broken off.
"""

from contextlib import suppress
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.config import get_stream_writer
from langgraph.constants import TAG_NOSTREAM

from aion_core.agents.internal_events import InternalEvents
from aion_core.agents.langgraph.spoken import is_internal
from aion_core.agents.langgraph.streamed import Streamed
from aion_core.agents.sink import BrokeOff


class Observer(BaseCallbackHandler):
    """Hears one turn's model calls and tools, and logs them as `internal:*` events."""

    # In the thread that calls, so that the lines stand in the order of what they tell.
    run_inline = True

    def __init__(self, task_id: str, streamed: Streamed) -> None:
        self._internal, self._streamed = InternalEvents(task_id), streamed
        self._tools: dict[UUID, str] = {}
        self._heard: set[UUID] = set()
        self._nodes: set[UUID] = set()
        self._speaking: dict[UUID, str] = {}
        """The ids of the messages of the calls that stream."""

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Log `internal:llm-call`, with which of the turn's calls it is."""
        self._internal.llm_call()
        if TAG_NOSTREAM not in (tags or ()) and not is_internal(metadata or {}):
            self._heard.add(run_id)

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Note that this call streams, and under which id."""
        if run_id in self._heard:
            self._heard.discard(run_id)
            self._streamed.began_to_stream(run_id)
            self._speaking[run_id] = getattr(getattr(kwargs.get("chunk"), "message", None), "id", None) or ""

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Note what the call has said."""
        self._heard.discard(run_id)
        self._speaking.pop(run_id, None)
        for generation in response.generations[0][:1] if response.generations else ():
            if isinstance(generation, ChatGeneration):
                self._streamed.ended(run_id, generation.message)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Let the turn's own stream know that the call has broken off, in line with what it has said."""
        self._heard.discard(run_id)
        if message_id := self._speaking.pop(run_id, ""):
            # Outside of a node, or after the stream has ended, there is nobody to tell.
            with suppress(Exception):
                get_stream_writer()(BrokeOff(message_id))

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note that a node begins, as against a chain within it."""
        if metadata and kwargs.get("name") == metadata.get("langgraph_node"):
            self._nodes.add(run_id)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Note what the node has returned."""
        if run_id in self._nodes:
            self._nodes.discard(run_id)
            self._streamed.returned(outputs)

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], **kwargs: Any) -> None:
        """See `on_chat_model_start`."""
        self._internal.llm_call()

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, *, run_id: UUID, **kwargs: Any) -> None:
        """Log `internal:tool-start`; the arguments are not logged."""
        call_id = str(kwargs.get("tool_call_id") or run_id)
        self._tools[run_id] = call_id
        self._internal.tool_start(str((serialized or {}).get("name", "")), call_id)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Log `internal:tool-complete`."""
        self._tool_ended(run_id, success=getattr(output, "status", "success") != "error")

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Log `internal:tool-complete`, without success."""
        self._tool_ended(run_id, success=False)

    def stepped(self) -> None:
        """Log `internal:checkpoint`: a step of the graph is stored."""
        self._internal.checkpoint()

    def _tool_ended(self, run_id: UUID, *, success: bool) -> None:
        self._internal.tool_complete(self._tools.pop(run_id, str(run_id)), success=success)
