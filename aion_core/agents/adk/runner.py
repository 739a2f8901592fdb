"""ADK Runner of a turn."""

import asyncio
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.runners import Runner
from google.adk.sessions import Session

from aion_core.authoring.types import A2AInbox
from aion_core.errors import CANCELED_ITSELF, AgentFailed


class AionInvocation(InvocationContext):
    """ADK invocation context with the turn's inbox. Agents, callbacks and tools read `ctx.a2a_inbox`."""

    a2a_inbox: A2AInbox | None = None


class TurnRunner(Runner):
    """ADK Runner of one turn. It adds the turn's id and inbox to each new invocation context."""

    def __init__(self, *, turn_id: str, inbox: A2AInbox, **arguments: Any) -> None:
        """Create the Runner. `turn_id` becomes the id of a new invocation."""
        super().__init__(**arguments)
        self._turn_id, self._inbox = turn_id, inbox
        self.session: Session | None = None
        """Session of the running invocation, with the events stored so far; None before it starts."""

    def _new_invocation_context(
        self, session: Session, *, invocation_id: str | None = None, **arguments: Any
    ) -> InvocationContext:
        made = super()._new_invocation_context(session, invocation_id=invocation_id or self._turn_id, **arguments)
        self.session = session
        return AionInvocation(
            **{name: getattr(made, name) for name in InvocationContext.model_fields}, a2a_inbox=self._inbox
        )

    async def _cleanup_root_task(self, task: asyncio.Task[None], node_name: str) -> None:
        """Raise AgentFailed if the agent's code has canceled the invocation, because ADK only logs this."""
        canceled = task.done() and task.cancelled()
        await super()._cleanup_root_task(task, node_name)
        if canceled:
            raise AgentFailed(CANCELED_ITSELF)
