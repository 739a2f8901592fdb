"""A turn's answer as an artifact of its task (D22), and what was said in a task, such answers among it. Pure."""

from aion_core.protocol.types import Artifact, Message, Role, Task

ANSWERS = "aion:answers"
"""The key of an artifact's metadata that says: this is the answer to the message of that id."""
NAME = "answer"


def as_artifact(answer: Message, asked: Message) -> Artifact:
    """Return the answer as an artifact: its id is the answer's, and it says which message it answers."""
    artifact = Artifact(
        artifact_id=answer.message_id,
        name=NAME,
        parts=answer.parts,
        metadata=answer.metadata,
        extensions=answer.extensions,
    )
    artifact.metadata.update({ANSWERS: asked.message_id})
    return artifact


def is_answer(artifact: Artifact) -> bool:
    """Tell whether the artifact is the answer of a turn; no author can make another look like one."""
    return ANSWERS in artifact.metadata


def as_message(artifact: Artifact, task: Task) -> Message:
    """Return the answer that the artifact holds as the message that it was."""
    message = Message(
        message_id=artifact.artifact_id,
        role=Role.ROLE_AGENT,
        task_id=task.id,
        context_id=task.context_id,
        parts=artifact.parts,
        extensions=artifact.extensions,
    )
    if len(artifact.metadata) > 1:
        message.metadata.CopyFrom(artifact.metadata)
        del message.metadata[ANSWERS]
    return message


def messages_in(task: Task) -> list[Message]:
    """Return what was said in the task, oldest first, no message twice: an answer stands behind what it answers."""
    last = [task.status.message] if task.status.HasField("message") else []
    known = {message.message_id for message in (*task.history, *last)}
    answers: dict[str, list[Message]] = {}
    for artifact in task.artifacts:
        if is_answer(artifact) and artifact.artifact_id not in known:
            answers.setdefault(str(artifact.metadata[ANSWERS]), []).append(as_message(artifact, task))
    said: list[Message] = []
    due: list[Message] = []
    for message in task.history:
        if message.role == Role.ROLE_USER:
            said += due
            due = answers.get(message.message_id, [])
        said.append(message)
    return [*said, *due, *last]
