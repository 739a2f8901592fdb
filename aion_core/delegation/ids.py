"""Ids of messages to remote agents, derived from the caller's task, so that a repeated message is recognised. Pure."""

import uuid

from aion_core.table.keys import ContextKey

_IDS = uuid.UUID("0f2f3f0e-6a0b-4a44-9b8c-0f6f5b3a3c35")


def message_id(context: ContextKey, task_id: str, call: str) -> str:
    """Return the messageId of a call: the same at each attempt to send it."""
    return _derived("message", context.owner, context.agent, task_id, call)


def context_id(context: ContextKey, remote: str, *, branch: str = "") -> str:
    """Return the contextId of the conversation with a remote agent, the same in later turns of the caller's context.

    It is unlike the caller's own: an agent that calls itself would wait for its own turn. `branch` names a further
    conversation with the same remote agent.
    """
    return _derived("context", context.owner, context.agent, context.context_id, remote, branch)


def artifact_id(task_id: str, call: str, name: str) -> str:
    """Return the id of the caller's artifact for a file that a remote agent has sent."""
    return _derived("artifact", task_id, call, name)


def _derived(*names: str) -> str:
    return str(uuid.uuid5(_IDS, "\0".join(names)))
