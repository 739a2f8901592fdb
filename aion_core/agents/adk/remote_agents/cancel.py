"""Cancellation of a remote task that a RemoteA2aAgent has begun, with the agent's own client and credentials."""

from typing import Any

from google.adk.agents.invocation_context import InvocationContext

from aion_core.agent_client.checked import CheckedClient
from aion_core.agent_client.documents import in_time
from aion_core.delegation.cancel import cancel_remote_task
from aion_core.engine.remote_calls.cancellation import Canceled
from aion_core.engine.remote_calls.records import CallToCancel


async def cancel_call(agent: Any, to_cancel: CallToCancel, ctx: InvocationContext, *, now: int) -> Canceled:
    """Ask the remote agent to cancel the task of the call. Errors of its card, or of the author's code, are raised.

    `ctx` gives the agent's interceptors what they read: the session of the conversation, with its credentials.
    """
    from google.adk.a2a.agent.utils import execute_before_request_interceptors

    if agent._auth_config and await agent._resolve_auth_credential(ctx) is not None:
        return Canceled.NEVER  # nobody is there to give the credential
    message = to_cancel.call.message
    _, parameters = await execute_before_request_interceptors(agent._config.request_interceptors, ctx, message)
    client = CheckedClient(await in_time(agent._ensure_resolved(ctx)))
    return await cancel_remote_task(client, to_cancel, now=now, context=parameters.client_call_context)
