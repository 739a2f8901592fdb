"""What happens within a graph, for the operator's log only: model calls, tools, checkpoints (S3, R38).

None of it goes over A2A; each is one log line of fixed fields, without a word of what was said.
"""

import logging
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage

logger = logging.getLogger("aion_core.internal")


class Observer(BaseCallbackHandler):
    """Hears one turn's model calls and tools, and logs them as `internal:*` events."""

    # In the thread that calls, so that the lines stand in the order of what they tell.
    run_inline = True

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._model_calls = 0
        self._steps = 0
        self._tools: dict[UUID, str] = {}

    def on_chat_model_start(self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **kwargs: Any) -> None:
        """Log `internal:llm-call`, with which of the turn's calls it is."""
        self._model_calls += 1
        self._log("llm-call", iteration=self._model_calls)

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], **kwargs: Any) -> None:
        """See `on_chat_model_start`."""
        self._model_calls += 1
        self._log("llm-call", iteration=self._model_calls)

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, *, run_id: UUID, **kwargs: Any) -> None:
        """Log `internal:tool-start`; the arguments are not logged."""
        call_id = str(kwargs.get("tool_call_id") or run_id)
        self._tools[run_id] = call_id
        self._log("tool-start", toolName=str((serialized or {}).get("name", "")), toolCallId=call_id)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Log `internal:tool-complete`."""
        self._tool_ended(run_id, success=getattr(output, "status", "success") != "error")

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Log `internal:tool-complete`, without success."""
        self._tool_ended(run_id, success=False)

    def stepped(self) -> None:
        """Log `internal:checkpoint`: a step of the graph is stored."""
        self._steps += 1
        self._log("checkpoint", iteration=self._steps)

    def _tool_ended(self, run_id: UUID, *, success: bool) -> None:
        self._log("tool-complete", toolCallId=self._tools.pop(run_id, str(run_id)), success=success)

    def _log(self, kind: str, **fields: Any) -> None:
        event = {
            "kind": f"internal:{kind}",
            "taskId": self._task_id,
            **fields,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        logger.info("internal:%s", kind, extra={"internal": event})
