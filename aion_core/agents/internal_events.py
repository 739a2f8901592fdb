"""The `internal:*` events of a turn: lines of fixed fields in the operator's log, without a word of what was said (S3, R38)."""

import logging
from datetime import UTC, datetime
from typing import Any

logger = logging.getLogger("aion_core.internal")


class InternalEvents:
    """Logs one turn's model calls, tools and steps; no client hears of them."""

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._model_calls = 0
        self._steps = 0

    def llm_call(self) -> None:
        """Log `internal:llm-call`, with which of the turn's calls it is."""
        self._model_calls += 1
        self._log("llm-call", iteration=self._model_calls)

    def tool_start(self, name: str, call_id: str) -> None:
        """Log `internal:tool-start`; the arguments are not logged."""
        self._log("tool-start", toolName=name, toolCallId=call_id)

    def tool_complete(self, call_id: str, *, success: bool) -> None:
        """Log `internal:tool-complete`."""
        self._log("tool-complete", toolCallId=call_id, success=success)

    def checkpoint(self) -> None:
        """Log `internal:checkpoint`, with which of the turn's steps is stored."""
        self._steps += 1
        self._log("checkpoint", iteration=self._steps)

    def _log(self, kind: str, **fields: Any) -> None:
        event = {
            "kind": f"internal:{kind}",
            "taskId": self._task_id,
            **fields,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        logger.info("internal:%s", kind, extra={"internal": event})
