"""Replies sent by an author's code through the AionContext, as received by the server."""

import asyncio
import contextvars
import math
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from langchain_core.messages import AIMessageChunk

from aion.langgraph import AionContext, get_aion_context
from aion_core.authoring.context import ReplySink, aion_context_set
from aion_core.protocol import types as a2a
from tests.runtime.unit.authoring.recording_sink import RecordingSink, a_turn
from tests.support.rows import each_row


@pytest.fixture
def sink() -> RecordingSink:
    return RecordingSink()


@pytest.fixture
def turn(sink: RecordingSink) -> AionContext:
    return a_turn(sink)


async def words(*texts: Any) -> AsyncGenerator[Any, None]:
    for text in texts:
        yield text


def answer(text: str, message_id: str = "r-1") -> a2a.Message:
    return a2a.Message(message_id=message_id, role=a2a.Role.ROLE_AGENT, parts=[a2a.Part(text=text)])


async def test_text_reply_is_sent_to_conversation_of_received_message(turn: AionContext, sink: RecordingSink) -> None:
    _: ReplySink = sink
    await turn.thread.reply("Here is what I can do.")
    assert turn.message is not None
    await turn.message.reply("And so can I.")
    assert sink.told == [
        ("reply", (answer("Here is what I can do."), "dm-7")),
        ("reply", (answer("And so can I.", "r-2"), "dm-7")),
    ]


async def test_thread_post_with_target_is_sent_to_that_target(turn: AionContext, sink: RecordingSink) -> None:
    """Call `thread.post` with `target`: it replaces the target of the message that the agent received."""
    await turn.thread.post("here")
    await turn.thread.post("there", target="channel-1")
    assert [given[1] for _, given in sink.told] == ["dm-7", "channel-1"]


async def test_reply_from_iterator_streams_its_chunks_and_joins_them(turn: AionContext, sink: RecordingSink) -> None:
    """Reply with an iterator: its chunks are streamed, and together they are the reply."""
    heard: list[int] = []

    async def speaking() -> AsyncIterator[str]:
        for text in ("Hel", "", "lo"):
            heard.append(len(sink.told))
            yield text

    await turn.thread.reply(speaking())
    assert sink.told == [
        ("chunk", ("Hel", "r-1", "dm-7")),
        ("chunk", ("lo", "r-1", "dm-7")),
        ("reply", (answer("Hello"), "dm-7")),
    ]
    assert heard == [0, 1, 1]


async def test_reply_iterator_raising_error_leaves_no_reply(turn: AionContext, sink: RecordingSink) -> None:
    """Reply with an iterator that raises: the chunks before the error are not recorded."""

    async def breaking() -> AsyncIterator[str]:
        yield "Hel"
        raise ConnectionError("the model is gone")

    with pytest.raises(ConnectionError, match="the model is gone"):
        await turn.thread.reply(breaking())
    assert sink.chunks == ["Hel"]
    assert sink.replies == []


async def test_reply_iterator_is_closed_on_cancellation(turn: AionContext, sink: RecordingSink) -> None:
    closed = asyncio.Event()
    spoken = asyncio.Event()

    async def endless() -> AsyncIterator[str]:
        try:
            yield "Hel"
            spoken.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    replying = asyncio.create_task(turn.thread.reply(endless()))
    await spoken.wait()
    replying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await replying
    assert closed.is_set()
    assert sink.replies == []


async def test_reply_iterator_without_text_is_refused(turn: AionContext, sink: RecordingSink) -> None:
    chunks = words("Hel", AIMessageChunk(content="lo"))
    with pytest.raises(TypeError, match="yields AIMessageChunk"):
        await turn.thread.reply(chunks)
    assert [chunk async for chunk in chunks] == []
    assert sink.replies == []


async def test_empty_reply_sends_nothing(turn: AionContext, sink: RecordingSink) -> None:
    await turn.thread.reply("")
    await turn.thread.reply(words())
    await turn.thread.reply(words("", ""))
    assert sink.told == []


async def test_reply_message_gets_ids_from_server(turn: AionContext, sink: RecordingSink) -> None:
    """taskId, contextId and `aion:` keys are set by the server."""
    message = a2a.Message(
        task_id="mine",
        context_id="mine",
        role=a2a.Role.ROLE_USER,
        parts=[a2a.Part(url="https://x/y", metadata={"aion:x": 1, "kept": 1})],
        metadata={"aion:network": "x", "theme": "dark", "size": 1},
    )
    before = MessageToDict(message)
    await turn.thread.reply(message, metadata={"size": 2, "AION:id": "me", "deep": {"aion:y": 1}})
    assert MessageToDict(sink.replies[0]) == {
        "messageId": "r-1",
        "role": "ROLE_AGENT",
        "parts": [{"url": "https://x/y", "metadata": {"kept": 1}}],
        "metadata": {"theme": "dark", "size": 2, "deep": {}},
    }
    assert MessageToDict(message) == before


@pytest.mark.parametrize(
    "content",
    [
        {"messageId": "own", "parts": [{"text": "hi"}]},
        {"kind": "message", "messageId": "own", "role": "agent", "parts": [{"kind": "text", "text": "hi"}]},
    ],
)
async def test_message_json_of_either_version_is_accepted(
    turn: AionContext, sink: RecordingSink, content: dict[str, Any]
) -> None:
    await turn.thread.reply(content, metadata={"a": 1})
    assert sink.replies == [
        a2a.Message(message_id="own", role=a2a.Role.ROLE_AGENT, parts=[a2a.Part(text="hi")], metadata={"a": 1})
    ]


@each_row(
    ("content", "metadata", "error"),
    [
        (7, None, TypeError),
        (None, None, TypeError),
        (["chunk"], None, TypeError),
        (words, None, TypeError),
        (a2a.Task(), None, TypeError),
        ({"text": "hi"}, None, TypeError),
        (a2a.Message(), None, ValueError),
        ("hi", {"x": object()}, ValueError),
        ("hi", {"x": math.nan}, ValueError),
        ("hi", [("x", 1)], TypeError),
    ],
)
async def test_invalid_reply_content_is_refused_before_streaming(
    turn: AionContext, sink: RecordingSink, content: Any, metadata: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"^(reply|The message given to reply) .*\.$|reply's metadata"):
        await turn.thread.reply(content, metadata=metadata)
    assert sink.told == []


async def test_message_has_text_and_sends_reactions_with_its_id(turn: AionContext, sink: RecordingSink) -> None:
    message = turn.message
    assert message is not None
    assert (message.id, message.text, message.user.id, message.thread) == ("m-1", "hello", "u-1", turn.thread)
    await message.react("thumbs_up")
    await turn.thread.typing()
    assert sink.told == [("react", ("thumbs_up", "m-1")), ("typing", None)]
    with pytest.raises(ValueError, match="key is empty"):
        await message.react("")


def test_message_text_joins_text_parts(turn: AionContext) -> None:
    assert turn.message is not None
    turn.message.raw.ClearField("parts")
    assert turn.message.text == ""
    turn.message.raw.parts.extend([a2a.Part(text="a"), a2a.Part(url="https://x"), a2a.Part(text="b")])
    assert turn.message.text == "ab"


async def test_thread_history_has_newest_messages_oldest_first() -> None:
    sink = RecordingSink([answer(f"text {n}", f"m-{n}") for n in range(30)])
    thread = a_turn(sink).thread
    assert [message.id for message in await thread.history()] == [f"m-{n}" for n in range(10, 30)]
    [message] = await thread.history(1, before="m-5")
    assert (message.text, message.user.id, message.thread) == ("text 4", "agent-1", thread)
    assert await thread.history(limit=0) == []
    with pytest.raises(ValueError, match="below 0"):
        await thread.history(-1)


# ── get_aion_context ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_aion_context_is_available_in_asyncio_tasks_and_threads(turn: AionContext) -> None:
    with aion_context_set(turn):
        assert get_aion_context() is turn
        assert await asyncio.to_thread(get_aion_context) is turn
        assert await asyncio.create_task(asyncio.sleep(0, get_aion_context())) is turn
        inner = a_turn(RecordingSink())
        with aion_context_set(inner):
            assert get_aion_context() is inner
        assert get_aion_context() is turn
    with pytest.raises(RuntimeError, match="No turn is running"):
        get_aion_context()


async def test_concurrent_turns_have_separate_aion_contexts() -> None:
    async def run(turn: AionContext) -> bool:
        with aion_context_set(turn):
            await asyncio.sleep(0)
            return get_aion_context() is turn

    assert await asyncio.gather(*(run(a_turn(RecordingSink())) for _ in range(5))) == [True] * 5


async def test_agent_generator_may_be_closed_by_another_asyncio_task(turn: AionContext) -> None:
    async def agent() -> AsyncGenerator[int, None]:
        with aion_context_set(turn):
            yield 1

    stream = agent()
    await asyncio.create_task(anext(stream), context=contextvars.copy_context())
    await stream.aclose()
    with pytest.raises(RuntimeError):
        get_aion_context()
