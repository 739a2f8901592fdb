"""Names of a turn's speakers, in the metadata of stream deltas and of status updates."""


def speaker_of(message_id: str, **names: str) -> dict[str, str]:
    """Return the metadata of a stream delta: the id of its message, and the speaker's names, without empty names.

    `node` is a LangGraph node, `agent` the sub-agent as in `agentInvoked`, and `branch` identifies an ADK agent among
    those that run concurrently.
    """
    return {key: name for key, name in {"messageId": message_id, **names}.items() if name}


INVOKED = "agentInvoked"
"""Key in a status update's metadata for the name of an invoked sub-agent."""
