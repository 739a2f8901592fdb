"""Check of the lease before each run of a Workflow's node, for which ADK has no callback."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from google.adk.agents.context import Context
from google.adk.workflow._node_runner import NodeRunner

before_node: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("aion_adk_before_node", default=None)
"""Function of the running turn to await before each run of a node; None outside of a turn."""

_PATCHED = "_aion_checks_nodes"


def check_before_nodes() -> None:
    """Let ADK await `before_node` before each run of a node, also if it tries the node again.

    A repeated call has no effect.
    """
    if getattr(NodeRunner, _PATCHED, False):
        return
    execute = NodeRunner._execute_node

    async def _execute_node(self: Any, ctx: Context, node_input: Any) -> None:
        check = before_node.get()
        if check is not None:
            await check()
        await execute(self, ctx, node_input)

    setattr(NodeRunner, _PATCHED, True)
    NodeRunner._execute_node = _execute_node  # type: ignore[method-assign]
