"""ADK's own Runner, with the turn's id and the turn's envelope: all else is as ADK does it (R86)."""

from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.runners import Runner
from google.adk.sessions import Session

from aion_core.authoring.types import A2AInbox


class AionInvocation(InvocationContext):
    """An invocation that knows what came in; its agents, callbacks and tools find it as `ctx.a2a_inbox`."""

    a2a_inbox: A2AInbox | None = None


class TurnRunner(Runner):
    """Runs one turn: `_new_invocation_context` is where ADK lets its context be extended."""

    def __init__(self, *, turn_id: str, inbox: A2AInbox, **given: Any) -> None:
        """`turn_id` is what an invocation is called that nothing has called before."""
        super().__init__(**given)
        self._turn_id, self._inbox = turn_id, inbox
        self.session: Session | None = None
        """The session of the invocation, with all that it has stored by now."""

    def _new_invocation_context(
        self, session: Session, *, invocation_id: str | None = None, **given: Any
    ) -> InvocationContext:
        made = super()._new_invocation_context(session, invocation_id=invocation_id or self._turn_id, **given)
        self.session = session
        return AionInvocation(
            **{name: getattr(made, name) for name in InvocationContext.model_fields}, a2a_inbox=self._inbox
        )
