"""Work of the deployed agents outside of their turns: for remote tasks that they began, and for their canceled tasks."""

from collections.abc import Callable, Mapping, Sequence

from aion_core.clock import Clock
from aion_core.delegation.remotes import Remotes
from aion_core.engine.agent import Agent, CallsRemoteAgents, NoticesCancellations
from aion_core.engine.records import AwaitedCall
from aion_core.engine.remote_calls.cancellation import Canceled
from aion_core.engine.remote_calls.records import CallToCancel
from aion_core.engine.remote_calls.store import RemoteCallStore
from aion_core.errors import ConfigurationError
from aion_core.loading.lazy_agent import LazyAgent
from aion_core.protocol.types import Task
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.times import milliseconds


class OutsideTurns:
    """Work of agents outside of their turns. A call that names an `agent` is that agent's own: its code knows how to reach it."""

    def __init__(
        self,
        agents: Mapping[str, LazyAgent],
        remotes: Remotes,
        calls: RemoteCallStore,
        clock: Clock,
        renew_secrets: Callable[[], None],
    ) -> None:
        """Store the services. `renew_secrets` is called before each request, and must return at once."""
        self._agents, self._remotes, self._calls, self._clock = agents, remotes, calls, clock
        self._renew_secrets = renew_secrets

    async def cancel(self, to_cancel: CallToCancel) -> Canceled:
        """Cancel the remote task of a call. Raises what the agent's code or its credentials raise."""
        self._renew_secrets()
        call = to_cancel.call
        if call.agent and call.remote not in self._remotes:
            agent = await self._agents[to_cancel.context.agent].loaded()
            return await agent.cancel_remote(to_cancel) if isinstance(agent, CallsRemoteAgents) else Canceled.NEVER
        # Import late, because most processes cancel no call.
        from aion_core.delegation.cancel import cancel_remote_task

        async with self._remotes.client(call.remote) as client:
            return await cancel_remote_task(client, to_cancel, now=milliseconds(self._clock.now()))

    async def tell_agent(self, context: ContextKey, task: TaskKey) -> None:
        """Tell the task's agent that the task was canceled, if its code wants to know. Raises StoreError."""
        agent = await self._agent_of(context)
        if isinstance(agent, NoticesCancellations):
            await agent.canceled(task)

    async def look(self, context: ContextKey, task: TaskKey, calls: Sequence[AwaitedCall]) -> bool:
        """Return True if a turn has to go on for one of the calls, and store the answers. Raises StoreError."""
        # Import late, because most processes await no call.
        from aion_core.delegation.looks import have_answers

        self._renew_secrets()
        return await have_answers(self._remotes.client, self._calls, context, task, calls, own_look=self._look_by_agent)

    async def _look_by_agent(self, context: ContextKey, task: TaskKey, call: AwaitedCall) -> Task:
        agent = await self._agent_of(context)
        stored = {each.key: each for each in await self._calls.of_task(task)}.get(call.key)
        if not isinstance(agent, CallsRemoteAgents) or stored is None:
            raise ConfigurationError(f"The agent {context.agent!r} does not make the call {call.key!r} any more.")
        return await agent.look_at_remote(context, task, stored)

    async def _agent_of(self, context: ContextKey) -> Agent | None:
        """Return the context's agent, loaded if necessary; None if it is not deployed any more."""
        deployed = self._agents.get(context.agent)
        return await deployed.loaded() if deployed is not None else None
