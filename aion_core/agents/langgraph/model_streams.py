"""Model calls of a LangGraph turn: callbacks, the streams of one message at a time, and the streamed texts."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, MutableMapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.config import get_stream_writer
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphBubbleUp

from aion_core.agents.langgraph.thread import UnreturnedOutput, last_name
from aion_core.agents.outbound import InternalEvents, StreamAborted, StreamSequencer, speaker_of
from aion_core.engine.agent import Chunk

_QUIET = "aion_quiet"
"""Key in the metadata of a model call within a tool. LangGraph passes the metadata on with each chunk."""


def mark_quiet(metadata: MutableMapping[str, Any]) -> None:
    """Mark a model call made by a tool, such as that of a nested agent, so that it is not streamed to the client."""
    metadata[_QUIET] = True


def is_internal(metadata: Mapping[str, Any]) -> bool:
    """Return True for a model call by a tool or by a LangChain middleware, such as a summary of the conversation."""
    return "lc_internal_call" in metadata or "lc_source" in metadata or _QUIET in metadata


class ModelStreams:
    """Streams of a turn's model calls and replies. Clients receive one message at a time."""

    def __init__(self, invoked: Collection[tuple[str, ...]], failed: Collection[str] = ()) -> None:
        """Start without streams. `invoked` has the namespaces of the subgraphs that have started.

        `failed` has the message ids of model calls in failed attempts of nodes. The caller adds ids during the turn.
        """
        self._sequencer, self._invoked, self._failed = StreamSequencer(), invoked, failed
        self._namespaces: dict[str, tuple[str, ...]] = {}
        self._speakers: dict[str, dict[str, str]] = {}
        self._streamed: set[str] = set()
        self._texts: dict[str, list[str]] = {}
        """Streamed text of each model call, by message id."""
        self._tool_callers: set[str] = set()
        """Message ids of model calls that call tools. Their text is intermediate and not an answer."""
        self._latest = ""
        self._keys: dict[str, str] = {}
        """Names of the model calls, by message id. A name is made of the node's run and a counter, so that a repeated
        call gets the same name."""
        self._calls: Counter[str] = Counter()
        self._ended: set[str] = set()

    def add(self, message: AIMessageChunk, *, namespace: str = "", emitted: bool = False) -> Iterator[Chunk]:
        """Yield a model's chunk now, or buffer it if another message is streaming.

        `namespace` is the checkpoint_ns of the node that calls the model. `emitted` is True if the author's code has
        emitted the chunk, and False if LangGraph streams it.
        """
        call = message.id or ""
        if call not in self._namespaces:
            self._namespaces[call] = path = tuple(namespace.split("|"))
            if self._sequencer.open in self._failed and self._namespaces.get(self._sequencer.open) == path:
                # Abort the stream left open by the node's failed attempt, because this chunk comes from the node's next
                # attempt.
                yield from self.abort(self._sequencer.open)
            self._speakers[call] = self._speaker(call, namespace)
        if not emitted and call not in self._streamed:
            self._streamed.add(call)
            self._keys[call] = f"{namespace}/{self._calls[namespace]}"
            self._calls[namespace] += 1
        self._latest = call
        if message.tool_call_chunks or message.tool_calls:
            self._tool_callers.add(call)
        text = message.content if isinstance(message.content, str) else str(message.text)
        if text:
            self._texts.setdefault(call, []).append(text)
            yield from self._sequencer.add(Chunk(text, call, speaker=self._speakers[call]))
        if message.chunk_position == "last":
            yield from self._sequencer.close(call)

    def restore(self, call: str, text: str) -> None:
        """Add the text of a model call that an earlier process has streamed in this turn."""
        self._streamed.add(call)
        self._ended.add(call)
        self._texts[call], self._keys[call] = [text], call

    def add_reply(self, text: str, message_id: str, *, namespace: str) -> Iterator[Chunk]:
        """Yield a reply's chunk now, or buffer it if another message is streaming."""
        yield from self._sequencer.add(Chunk(text, message_id, speaker=self._speaker(message_id, namespace)))

    def discard_reply(self, message_id: str) -> Iterator[Chunk]:
        """Drop the buffered chunks of a reply that is complete. Yield the chunks of the next message."""
        yield from self._sequencer.discard(message_id)

    def abort(self, message_id: str) -> Iterator[Chunk]:
        """Abort a model call or a reply: its text is not an answer. Yield the buffered chunks of the next messages."""
        self._texts.pop(message_id, None)
        yield from self._sequencer.abort(message_id)

    def has_streamed(self, call: str) -> bool:
        """Return True if LangGraph streams this model call. Chunks emitted by the author's code are then duplicates."""
        return call in self._streamed

    def close(self, *message_ids: str) -> Iterator[Chunk]:
        """Close the streams of complete messages. Yield the buffered chunks of the next messages."""
        yield from self._sequencer.close(*message_ids)

    def end_run(self, task: Mapping[str, Any]) -> Iterator[Chunk]:
        """Close the streams of a run of a node or `@task` that has ended. If the run has failed, abort its open stream.

        `task` is the event of LangGraph's mode "tasks". The streams are matched by run, because several runs of one
        node may be active at once, as by `Send`. A run with an interrupt keeps its streams, because it runs again.
        Yield the buffered chunks of the next messages.
        """
        run = f"{task['name']}:{task['id']}"
        if task["error"] is not None and run in self._namespaces.get(self._sequencer.open, ()):
            yield from self.abort(self._sequencer.open)
        if task["error"] is not None or task["interrupts"]:
            return
        for call, path in self._namespaces.items():
            if run in path or path == ("",):
                self._ended.add(call)
        if self._sequencer.open:
            yield from self._sequencer.close(*self._ended)

    def close_all(self) -> Iterator[Chunk]:
        """Close all streams and yield the buffered chunks."""
        yield from self._sequencer.close_all()

    def ended_texts(self, is_done: Callable[[str], bool], *, every: bool = False) -> list[tuple[str, str, str]]:
        """Return message id, text and key of the streamed model calls whose nodes have ended.

        With `every`, include the calls of all nodes. Omit aborted calls, and calls for whose message id `is_done`
        returns True.
        """
        return [
            (call, "".join(texts), self._keys[call])
            for call, texts in self._texts.items()
            if call in self._streamed and (every or call in self._ended) and not is_done(call)
        ]

    def last_text(self) -> tuple[str, str]:
        """Return id and text of the last model call's message; if it has no text, of the last one without tool calls.

        Both values are "" if no such call has a text.
        """
        answering = [call for call in self._texts if call == self._latest or call not in self._tool_callers]
        last = self._latest if self._latest in self._texts else answering[-1] if answering else ""
        return last, "".join(self._texts.get(last, []))

    def latest_call(self, text: str) -> str:
        """Return the message id of the last model call that has streamed exactly this text, or ""."""
        return next((call for call, texts in reversed(self._texts.items()) if "".join(texts) == text), "")

    def _speaker(self, message_id: str, namespace: str) -> dict[str, str]:
        """Return the metadata of a message's stream delta. `agent` is the innermost started subgraph with its node."""
        path = tuple(namespace.split("|"))
        around = next((path[:depth] for depth in range(len(path) - 1, 0, -1) if path[:depth] in self._invoked), ())
        return speaker_of(message_id, node=last_name(path), agent=last_name(around))


# ── Callbacks of LangChain ────────────────────────────────────────────────────────────────────────────────────────────


class LangChainCallbacks(BaseCallbackHandler):
    """LangChain callbacks of one turn: log `internal:*` events of its model calls and tools.

    They also pass each model's text to `UnreturnedOutput` before its node ends, report an aborted model call to the
    turn's stream, and call `returned` with each node's checkpoint_ns and return value.
    """

    run_inline = True  # run callbacks inline, so that the log lines keep the order of the events

    def __init__(self, task_id: str, streamed: UnreturnedOutput, returned: Callable[[str, Any], None]) -> None:
        self._internal, self._streamed, self._returned = InternalEvents(task_id), streamed, returned
        self._tools: dict[UUID, str] = {}
        self._visible: set[UUID] = set()
        self._nodes: dict[UUID, str] = {}
        """Namespaces of the running nodes, by run id; empty for a node within a tool."""
        self._within_tools: set[UUID] = set()
        """Run ids of the tools and of everything that they call."""
        self._message_ids: dict[UUID, str] = {}
        """Message ids of the streaming model calls, by run id."""
        self._callers: dict[UUID, str] = {}
        """Namespaces of the nodes of running model calls, by run id."""
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
        """Log `internal:llm-call` with the number of the call in this turn. A call within a tool is not streamed."""
        self._internal.llm_call()
        self._callers[run_id] = (metadata or {}).get("langgraph_checkpoint_ns", "")
        if parent_run_id in self._within_tools and metadata is not None:
            # Mark the model call as not streamed. The mark is in the call's metadata, because LangGraph's handler for
            # the mode "messages" runs later and gets the same dict.
            mark_quiet(metadata)
        if TAG_NOSTREAM not in (tags or ()) and not is_internal(metadata or {}):
            self._visible.add(run_id)

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
        # First check whether `_visible` is empty, as it is for most tokens, because hashing the UUID of each token's
        # run takes time.
        if self._visible and run_id in self._visible:
            self._visible.discard(run_id)
            self._streamed.start(run_id)
            self._message_ids[run_id] = getattr(getattr(kwargs.get("chunk"), "message", None), "id", None) or ""

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Pass the complete message of the model call to `UnreturnedOutput`."""
        self._visible.discard(run_id)
        self._message_ids.pop(run_id, None)
        caller = self._callers.pop(run_id, "")
        for generation in response.generations[0][:1] if response.generations else ():
            if isinstance(generation, ChatGeneration):
                self._streamed.complete(run_id, generation.message)
                self._called.setdefault(caller, []).append(generation.message.id or "")

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Write a failed model call's abort to the turn's stream, so that the abort follows the chunks of the call."""
        self._visible.discard(run_id)
        self._callers.pop(run_id, None)
        if message_id := self._message_ids.pop(run_id, ""):
            # Ignore errors, because outside of a node, or after the end of the stream, LangGraph has no stream writer.
            with suppress(Exception):
                get_stream_writer()(StreamAborted(message_id))

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
        """Remember the run ids of nodes, and of chains called by tools. Ignore all other chains."""
        if parent_run_id in self._within_tools:
            self._within_tools.add(run_id)
        if metadata and kwargs.get("name") == metadata.get("langgraph_node"):
            self._nodes[run_id] = metadata["langgraph_checkpoint_ns"] if run_id not in self._within_tools else ""

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Remove a node's returned messages from the unreturned output. Record a subgraph's structured response."""
        self._within_tools.discard(run_id)
        if (namespace := self._nodes.pop(run_id, None)) is not None:
            self._streamed.remove_returned(outputs)
            if "|" in namespace:
                self._streamed.add_structured(outputs)
            if namespace:
                self._returned(namespace, outputs)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Discard the messages of a node's failed attempt. Interrupts and Commands to parent graphs are no failures."""
        self._within_tools.discard(run_id)
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
