"""Log of a turn's model calls, tools and steps, for operators."""

import logging
from datetime import UTC, datetime
from typing import Any

internal_logger = logging.getLogger("aion_core.internal")


class InternalEvents:
    """Log of one turn's model calls, tools and steps, for operators. It has no content of the conversation."""

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._model_calls = 0
        self._steps = 0

    def llm_call(self) -> None:
        """Log `internal:llm-call` with the number of the call in this turn."""
        self._model_calls += 1
        self._log("llm-call", iteration=self._model_calls)

    def tool_start(self, name: str, call_id: str) -> None:
        """Log `internal:tool-start` without the tool's arguments."""
        self._log("tool-start", toolName=name, toolCallId=call_id)

    def tool_complete(self, call_id: str, *, success: bool) -> None:
        """Log `internal:tool-complete`, with True or False for the tool call's success."""
        self._log("tool-complete", toolCallId=call_id, success=success)

    def checkpoint(self) -> None:
        """Log `internal:checkpoint` with the number of the stored step in this turn."""
        self._steps += 1
        # There is one for each step, so that they were more than half of a turn's log.
        self._log("checkpoint", logging.DEBUG, iteration=self._steps)

    def _log(self, kind: str, level: int = logging.INFO, **fields: Any) -> None:
        if not internal_logger.isEnabledFor(level):
            return
        event = {
            "kind": f"internal:{kind}",
            "taskId": self._task_id,
            **fields,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        internal_logger.log(level, "internal:%s", kind, extra={"internal": event})
