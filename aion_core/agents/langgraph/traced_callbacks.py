"""LangChain callbacks of a traced turn: they also record its nodes, model calls and tool calls."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from aion_core.agents.langgraph.callbacks import LangChainCallbacks
from aion_core.agents.langgraph.graph import Graph
from aion_core.agents.langgraph.unreturned_output import UnreturnedOutput
from aion_core.trace.recorder import TurnTrace
from aion_core.trace.step import Kind


class TracedCallbacks(LangChainCallbacks):
    """Callbacks of one turn whose steps are recorded. One handler does both, because LangChain's call of one is slow."""

    def __init__(
        self,
        task_id: str,
        streamed: UnreturnedOutput,
        graph: Graph,
        check_lease: Callable[[], None],
        trace: TurnTrace,
    ) -> None:
        super().__init__(task_id, streamed, graph, check_lease)
        self._trace = trace
        self._silent: set[UUID] = set()
        """Run ids of the model calls without a chunk so far."""

    def on_chain_start(self, serialized: dict[str, Any], inputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Record a node, or an agent within the graph. See `LangChainCallbacks.on_chain_start`."""
        name, parent, metadata = kwargs.get("name") or "", kwargs.get("parent_run_id"), kwargs.get("metadata")
        # An agent that is a node may have the node's name. Only the node's own run has LangGraph's tag.
        if metadata and name == metadata.get("langgraph_node") and _is_node(kwargs.get("tags") or ()):
            self._trace.begin(run_id, Kind.NODE, name, parent=parent)
        elif metadata and parent is not None and name and name == metadata.get("lc_agent_name"):
            self._trace.begin(run_id, Kind.AGENT, name, parent=parent)
        else:
            self._trace.pass_through(run_id, parent)
        super().on_chain_start(serialized, inputs, run_id=run_id, **kwargs)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the end of a node. See `LangChainCallbacks.on_chain_end`."""
        self._trace.end(run_id)
        super().on_chain_end(outputs, run_id=run_id, **kwargs)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record a node's failed attempt. See `LangChainCallbacks.on_chain_error`."""
        self._trace.end(run_id, error=_failure(error))
        super().on_chain_error(error, run_id=run_id, **kwargs)

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Record that a model call begins. See `LangChainCallbacks.on_chat_model_start`."""
        self._model_begins(serialized, run_id, kwargs.get("parent_run_id"), kwargs.get("metadata"))
        super().on_chat_model_start(serialized, messages, run_id=run_id, **kwargs)

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], **kwargs: Any) -> None:
        """Record that a call of a model for plain text begins. See `LangChainCallbacks.on_llm_start`."""
        self._model_begins(serialized, kwargs["run_id"], kwargs.get("parent_run_id"), kwargs.get("metadata"))
        super().on_llm_start(serialized, prompts, **kwargs)

    def _model_begins(
        self, serialized: dict[str, Any] | None, run_id: UUID, parent: UUID | None, metadata: dict[str, Any] | None
    ) -> None:
        told = metadata or {}
        name = told.get("ls_model_name") or (serialized or {}).get("name") or "model"
        self._silent.add(run_id)
        self._trace.begin(run_id, Kind.MODEL, str(name), parent=parent, provider=str(told.get("ls_provider") or ""))

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Record a model's first chunk. See `LangChainCallbacks.on_llm_new_token`."""
        if self._silent and run_id in self._silent:
            self._silent.discard(run_id)
            self._trace.first_chunk(run_id)
        super().on_llm_new_token(token, run_id=run_id, **kwargs)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the end of a model call, with its tokens. See `LangChainCallbacks.on_llm_end`."""
        self._silent.discard(run_id)
        self._trace.end(run_id, tokens=_tokens(response))
        super().on_llm_end(response, run_id=run_id, **kwargs)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record a failed model call. See `LangChainCallbacks.on_llm_error`."""
        self._silent.discard(run_id)
        self._trace.end(run_id, error=error)
        super().on_llm_error(error, run_id=run_id, **kwargs)

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Record that a tool call begins, with the model's arguments. See `LangChainCallbacks.on_tool_start`."""
        name = str((serialized or {}).get("name") or kwargs.get("name") or "tool")
        call_id = str(kwargs.get("tool_call_id") or "")
        arguments = inputs if inputs is not None else input_str
        self._trace.begin(run_id, Kind.TOOL, name, parent=parent_run_id, call_id=call_id, arguments=arguments)
        super().on_tool_start(serialized, input_str, run_id=run_id, **kwargs)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the end of a tool call, with its result. See `LangChainCallbacks.on_tool_end`."""
        said = _said(output)
        is_message = isinstance(said, ToolMessage)
        self._trace.end(
            run_id, result=said.content if is_message else said, failed=is_message and said.status == "error"
        )
        super().on_tool_end(output, run_id=run_id, **kwargs)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record a failed tool call. See `LangChainCallbacks.on_tool_error`."""
        self._trace.end(run_id, error=_failure(error))
        super().on_tool_error(error, run_id=run_id, **kwargs)


def _is_node(tags: Sequence[str]) -> bool:
    return any(tag.startswith("graph:step:") for tag in tags)


def _failure(error: BaseException) -> BaseException | None:
    """Return the error; None for an interrupt or a Command to a parent graph, which are none."""
    return None if isinstance(error, GraphBubbleUp) else error


def _said(output: Any) -> Any:
    """Return the output of a tool; of a Command the message in it, with which a tool such as deepagents' `task` answers."""
    messages = (
        output.update.get("messages") if isinstance(output, Command) and isinstance(output.update, dict) else None
    )
    found = [each for each in messages if isinstance(each, ToolMessage)] if isinstance(messages, list) else []
    return found[-1] if found else output


def _tokens(response: LLMResult) -> tuple[int | None, int | None]:
    """Return the numbers of input and output tokens, as far as the provider has told them."""
    for generation in response.generations[0][:1] if response.generations else ():
        message = generation.message if isinstance(generation, ChatGeneration) else None
        if isinstance(message, AIMessage) and message.usage_metadata:
            return message.usage_metadata["input_tokens"], message.usage_metadata["output_tokens"]
    return None, None
