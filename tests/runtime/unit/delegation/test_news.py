"""News of a remote task: each message and artifact is heard once, whatever streams were lost."""

import pytest

from aion_core.delegation.news import RemoteNews
from aion_core.protocol.stream_artifacts import STREAM_DELTA_ID
from aion_core.protocol.types import (
    Artifact,
    Message,
    Part,
    Role,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

WORKING, COMPLETED = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED


def message(name: str) -> Message:
    return Message(message_id=name, role=Role.ROLE_AGENT, parts=[Part(text=name)])


def status(state: TaskState, said: str = "") -> StreamResponse:
    found = TaskStatus(state=state, message=message(said) if said else None)
    return StreamResponse(status_update=TaskStatusUpdateEvent(task_id="t", status=found))


def artifact(name: str, text: str = "x", *, append: bool = False, last: bool = True) -> StreamResponse:
    made = Artifact(artifact_id=name, parts=[Part(text=text)])
    update = TaskArtifactUpdateEvent(task_id="t", artifact=made, append=append, last_chunk=last)
    return StreamResponse(artifact_update=update)


def task(state: TaskState, *history: str, said: str = "", artifacts: tuple[str, ...] = ()) -> StreamResponse:
    return StreamResponse(
        task=Task(
            id="t",
            status=TaskStatus(state=state, message=message(said) if said else None),
            history=[message(each) for each in history],
            artifacts=[Artifact(artifact_id=each, parts=[Part(text="whole")]) for each in artifacts],
        )
    )


def heard(news: RemoteNews, *responses: StreamResponse) -> list[str]:
    """Return what is new in the responses: `task`, and names of messages, artifacts and states."""
    found = []
    for response in responses:
        for each in news.of(response):
            kind = each.WhichOneof("payload")
            if kind == "artifact_update":
                found.append(
                    f"{each.artifact_update.artifact.artifact_id}={each.artifact_update.artifact.parts[0].text}"
                )
            elif kind == "status_update":
                said = each.status_update.status.message.message_id
                found.append(said or TaskState.Name(each.status_update.status.state))
            else:
                found.append(str(kind))
    return found


LOST = "lost"


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        pytest.param(
            [task(WORKING), status(WORKING, "a"), status(COMPLETED, "b")], ["task", "a", "b"], id="one stream"
        ),
        pytest.param(
            [task(WORKING), status(WORKING, "a"), LOST, task(WORKING, "a"), status(COMPLETED, "b")],
            ["task", "a", "b"],
            id="a message is repeated",
        ),
        pytest.param(
            [task(WORKING), status(WORKING, "a"), LOST, task(COMPLETED, "a", "b", said="c")],
            ["task", "a", "b", "c"],
            id="messages were missed",
        ),
        pytest.param(
            [task(WORKING), LOST, task(COMPLETED, "a", "b", said="b")],
            ["task", "a", "b"],
            id="the history repeats the answer",
        ),
        pytest.param(
            [
                task(WORKING),
                artifact("f", last=False),
                LOST,
                artifact("f", append=True),
                task(COMPLETED, artifacts=("f",)),
            ],
            ["task", "f=x", "f=whole", "TASK_STATE_COMPLETED"],
            id="an artifact was cut",
        ),
        pytest.param(
            [task(WORKING), artifact("f"), LOST, task(COMPLETED, artifacts=("f",))],
            ["task", "f=x", "TASK_STATE_COMPLETED"],
            id="a whole artifact is repeated",
        ),
        pytest.param(
            [task(WORKING), artifact(STREAM_DELTA_ID, last=False), LOST, artifact(STREAM_DELTA_ID, append=True)],
            ["task", f"{STREAM_DELTA_ID}=x"],
            id="a streamed text was cut",
        ),
    ],
)
def test_news_of_lost_streams_is_heard_once(responses: list[StreamResponse | str], expected: list[str]) -> None:
    news, found = RemoteNews(), []
    for response in responses:
        if isinstance(response, str):
            news.lost_stream()
        else:
            found += heard(news, response)
    assert found == expected


def test_new_attempt_hears_what_was_not_recorded() -> None:
    news = RemoteNews(heard={"a"})
    news.resumes("t")
    assert heard(news, task(COMPLETED, "a", "b", said="c")) == ["b", "c"]
    assert news.is_settled


@pytest.mark.parametrize("state", [COMPLETED, TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_REJECTED])
def test_end_of_repeated_task_is_news(state: TaskState) -> None:
    news = RemoteNews(heard={"a"})
    assert heard(news, task(state, said="a")) == ["a"]
    assert news.is_settled


def test_message_settles_call() -> None:
    news = RemoteNews()
    assert heard(news, StreamResponse(message=message("a"))) == ["message"]
    assert news.is_settled
    assert not news.task_id


@pytest.mark.parametrize("began", [True, False], ids=["in the first task", "after a reconnect"])
def test_artifact_that_grows_unheard_arrives_whole(began: bool) -> None:
    """Poll a task whose artifact gets its second half between two polls."""
    news = RemoteNews()
    if not began:
        heard(news, status(WORKING))
    first = task(WORKING, artifacts=("a",))
    found = list(news.of(first))
    assert not any(each.artifact_update.last_chunk for each in found)
    news.lost_stream()
    first.task.status.state = COMPLETED
    first.task.artifacts[0].parts.add(text="more")
    whole = next(each.artifact_update for each in news.of(first) if each.HasField("artifact_update"))
    assert [part.text for part in whole.artifact.parts] == ["whole", "more"]
    assert whole.last_chunk
