"""Requests about a remote task that a RemoteA2aAgent has begun, with the agent's own client and credentials.

Errors of the agent's card, or of the author's code, are raised. Each function takes the invocation context that gives the
agent's interceptors what they read: the session of the conversation, with its credentials.
"""

from typing import Any

from a2a.client.client import ClientCallContext
from a2a.types import GetTaskRequest
from google.adk.agents.invocation_context import InvocationContext
from google.adk.sessions import Session
from google.adk.workflow import BaseNode

from aion_core.agent_client.checked import CheckedClient
from aion_core.agent_client.documents import in_time
from aion_core.agents.adk.setup import AdkSetup
from aion_core.delegation.cancel import cancel_remote_task
from aion_core.engine.remote_calls.cancellation import Canceled
from aion_core.engine.remote_calls.records import CallToCancel, RemoteCall
from aion_core.errors import ConfigurationError
from aion_core.protocol.types import Message, Task
from aion_core.table.keys import ContextKey, TaskKey


async def outside_of_turn(setup: AdkSetup, agent: BaseNode, context: ContextKey, task: TaskKey) -> InvocationContext:
    """Return what an agent's client and interceptors read, outside of a turn."""
    key: dict[str, Any] = {
        "app_name": context.agent,
        "user_id": context.owner,
        "session_id": context.context_id,
    }
    sessions = setup.sessions(None)
    session = await sessions.get_session(**key)
    return InvocationContext(
        invocation_id=task.task_id,
        agent=agent,
        session=session or Session(id=key["session_id"], app_name=key["app_name"], user_id=key["user_id"]),
        session_service=sessions,
        credential_service=setup.credentials,
    )


async def cancel_call(agent: Any, to_cancel: CallToCancel, ctx: InvocationContext, *, now: int) -> Canceled:
    """Ask the remote agent to cancel the task of the call."""
    if not await _is_signed_in(agent, ctx):
        return Canceled.NEVER  # nobody is there to give the credential
    client, context = await _client(agent, to_cancel.call.message, ctx)
    return await cancel_remote_task(client, to_cancel, now=now, context=context)


async def look_at_call(agent: Any, call: RemoteCall, ctx: InvocationContext) -> Task:
    """Return the remote task of the call. Raises ConfigurationError if the client has to give a credential first."""
    if not await _is_signed_in(agent, ctx):
        raise ConfigurationError(f"The agent {agent.name} needs a credential.")
    client, context = await _client(agent, call.message, ctx)
    return await client.get_task(GetTaskRequest(id=call.remote_task), context=context)


async def _is_signed_in(agent: Any, ctx: InvocationContext) -> bool:
    return not agent._auth_config or await agent._resolve_auth_credential(ctx) is None


async def _client(
    agent: Any, message: Message, ctx: InvocationContext
) -> tuple[CheckedClient, ClientCallContext | None]:
    from google.adk.a2a.agent.utils import execute_before_request_interceptors

    _, parameters = await execute_before_request_interceptors(agent._config.request_interceptors, ctx, message)
    return CheckedClient(await in_time(agent._ensure_resolved(ctx))), parameters.client_call_context
