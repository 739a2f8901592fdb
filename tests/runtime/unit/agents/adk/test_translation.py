"""Translation of ADK events, tested through HTTP in both protocol versions."""

import asyncio
import base64
import re
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from a2a.types import Artifact, Message, Part, Role, Task, TaskState, TaskStatus
from google.adk.agents import BaseAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types as genai

from aion.adk import get_aion_context
from aion.shared.types import A2AOutbox
from tests.support.adk import (
    YieldingAgent,
    answer_text,
    ask,
    call,
    content,
    deltas,
    earlier,
    llm_agent,
    served,
    stream,
    text_event,
    yielding_agent,
)
from tests.support.service import http, parts, send


def message(text: str) -> Message:
    return Message(role=Role.ROLE_AGENT, parts=[Part(text=text)])


# ── Messages, streams and artifacts ───────────────────────────────────────────────────────────────────────────────────


async def test_agents_last_message_is_the_answer(dialect: str) -> None:
    """The agent sends several messages: the last is the answer, the earlier ones are intermediate messages."""
    async with http(
        parts(served(yielding_agent(text_event("One."), text_event("Two."), text_event("Three.")))).app()
    ) as client:
        task = await ask(client, dialect)
    assert (answer_text(task), earlier(task)) == ("Three.", ["hi", "One.", "Two."])
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_adk_events_with_same_id_are_separate_messages(dialect: str) -> None:
    """A custom agent gives three events one id, the last two with chunks: the client receives each text."""

    def event(*texts: str, partial: bool | None = None) -> Event:
        return text_event(*texts, partial=partial).model_copy(update={"id": "x1"})

    chunked = [event("sec", partial=True), event("second"), event("th", partial=True), event("third")]
    async with http(parts(served(yielding_agent(event("first"), *chunked))).app()) as client:
        task = await ask(client, dialect)
    assert (answer_text(task), earlier(task)) == ("third", ["hi", "first", "second"])
    assert len({message["messageId"] for message in task["history"]}) == 4


async def test_streamed_adk_message_is_recorded_once(dialect: str) -> None:
    """ADK repeats the streamed text in an aggregated event: this event closes the stream, and only it is recorded."""
    root = llm_agent(["Let me ", "see.", call("look")], ["All ", "fine."], tools=[look])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
    assert (answer_text(task), earlier(task)) == ("All fine.", ["hi", "Let me see."])


async def test_only_final_chunk_of_streamed_text_is_marked_last() -> None:
    root = llm_agent(["Let me ", "see.", call("look")], ["All ", "fine."], tools=[look])
    async with http(parts(served(root)).app()) as client:
        frames = await stream(client)
    assert deltas(frames) == [
        ("Let me ", False, False),
        ("see.", True, False),
        ("", True, True),
        ("All ", False, False),
        ("fine.", True, False),
        ("", True, True),
    ]


def look() -> str:
    return "a file"


async def test_partial_texts_become_answer_if_final_event_is_missing(dialect: str) -> None:
    streamed = [text_event("One."), text_event("Tw", partial=True), text_event("o", partial=True)]
    async with http(parts(served(yielding_agent(*streamed))).app()) as client:
        task = await ask(client, dialect)
    assert (answer_text(task), earlier(task)) == ("Two", ["hi", "One."])


async def test_final_event_replaces_streamed_partial_text(dialect: str) -> None:
    """A final event follows the partial text: only the final text is the answer."""
    async with http(
        parts(served(yielding_agent(text_event("Teh", partial=True), text_event("The answer.")))).app()
    ) as client:
        task = await ask(client, dialect)
    assert (answer_text(task), earlier(task)) == ("The answer.", ["hi"])


async def test_parallel_branches_stream_one_after_another(dialect: str) -> None:
    """Two agents stream at once: the client receives all chunks of one before those of the other."""
    both = ParallelAgent(
        name="both",
        sub_agents=[llm_agent(["a1 ", "a2 ", "a3"], name="first"), llm_agent(["b1 ", "b2 ", "b3"], name="second")],
    )
    async with http(parts(served(both)).app()) as client:
        spoken = "".join(text for text, _, _ in deltas(await stream(client)))
    assert spoken in ("a1 a2 a3b1 b2 b3", "b1 b2 b3a1 a2 a3")


async def test_message_completed_while_another_streams_is_recorded_first() -> None:
    """A message completed during another message's stream is streamed after that message, but recorded before it."""
    begun, told = asyncio.Event(), asyncio.Event()

    class Long(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
            yield spoken(self, ctx, "alpha", partial=True)
            begun.set()
            await told.wait()
            yield spoken(self, ctx, " one", partial=True)
            yield spoken(self, ctx, "alpha one")

    class Short(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
            await begun.wait()
            yield spoken(self, ctx, "beta", partial=True)
            yield spoken(self, ctx, "beta")
            told.set()

    both = ParallelAgent(name="both", sub_agents=[Long(name="long"), Short(name="short")])
    async with http(parts(served(both)).app()) as client:
        frames = await stream(client)
    shown: list[Any] = []
    for frame in frames:
        told_message = frame.get("statusUpdate", {}).get("status", {}).get("message")
        shown += [told_message["parts"][0]["text"]] if told_message else deltas([frame])
    assert shown == [
        ("alpha", False, False),
        (" one", True, False),
        ("", True, True),
        ("beta", False, False),
        ("", True, True),
        "beta",
        "alpha one",
    ]


def spoken(agent: BaseAgent, ctx: Any, text: str, *, partial: bool | None = None) -> Event:
    return Event(author=agent.name, branch=ctx.branch, partial=partial, content=content(genai.Part(text=text)))


async def test_partial_text_becomes_message_when_its_adk_agent_ends(dialect: str) -> None:
    """An agent ends after partial events only: its text is a message; the next agent's text is the answer."""
    first = yielding_agent(text_event("On", partial=True), text_event("e.", partial=True))
    root = SequentialAgent(name="root", sub_agents=[first, llm_agent(["Two."], name="second")])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
    assert (answer_text(task), earlier(task)) == ("Two.", ["hi", "One."])


async def test_texts_of_parallel_custom_agents_become_separate_messages(dialect: str) -> None:
    """Custom agents may yield events without a branch: their streams are told apart nevertheless."""
    branches: list[BaseAgent] = [
        YieldingAgent(name=name, events=[text_event(text, partial=True) for text in ("Hel", "lo.")])
        for name in ("one", "two")
    ]
    async with http(parts(served(ParallelAgent(name="root", sub_agents=branches))).app()) as client:
        task = await ask(client, dialect)
    assert (answer_text(task), earlier(task)) == ("Hello.", ["hi", "Hello."])


async def test_models_thoughts_are_not_streamed() -> None:
    thinking = Event(partial=True, content=content(genai.Part(text="hm", thought=True)))
    async with http(
        parts(served(yielding_agent(thinking, text_event("So", partial=True), text_event("So.")))).app()
    ) as client:
        frames = await stream(client)
    assert deltas(frames) == [("So", False, False), ("", True, True)]


async def test_saved_adk_artifact_has_its_version_in_metadata(dialect: str) -> None:
    """Save an artifact twice: the second version replaces the first one in the task."""

    async def save(tool_context: ToolContext, text: str) -> str:
        await tool_context.save_artifact(
            "notes.txt", genai.Part(inline_data=genai.Blob(mime_type="text/plain", data=text.encode()))
        )
        return "saved"

    root = llm_agent([call("save", text="one")], [call("save", text="two")], ["Saved."], tools=[save])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
    (artifact,) = task["artifacts"]
    assert artifact["name"] == "notes.txt"
    assert artifact["metadata"] == {"version": 1}
    assert artifact["parts"][0]["raw"] == base64.b64encode(b"two").decode()
    assert artifact["parts"][0]["filename"] == "notes.txt"


@pytest.mark.parametrize("method", ["SendMessage", "message/send"])
async def test_artifact_version_is_rendered_as_integer(method: str) -> None:
    async def save(tool_context: ToolContext) -> str:
        await tool_context.save_artifact("notes.txt", genai.Part(text="one"))
        return "saved"

    root = llm_agent([call("save")], ["Saved."], tools=[save])
    async with http(parts(served(root)).app()) as client:
        body = (await client.post("/", json=send(method=method))).text
    assert re.search(r'"version": ?0[,}]', body)


@pytest.mark.parametrize(
    ("saved", "shown"),
    [
        (genai.Part(inline_data=genai.Blob(mime_type="text/csv", data=b"")), {"raw": "", "mediaType": "text/csv"}),
        (genai.Part(text=""), {"text": ""}),
    ],
    ids=["bytes", "text"],
)
async def test_empty_adk_file_is_sent_as_artifact(saved: genai.Part, shown: dict[str, Any], dialect: str) -> None:
    """The artifact of an empty file still has one part, because A2A requires at least one."""

    async def save(tool_context: ToolContext) -> str:
        await tool_context.save_artifact("empty.csv", saved)
        return "saved"

    root = llm_agent([call("save")], ["Saved."], tools=[save])
    async with http(parts(served(root)).app()) as client:
        (artifact,) = (await ask(client, dialect))["artifacts"]
    (part,) = artifact["parts"]
    assert {key: part.get(key) for key in shown} == shown


async def test_missing_adk_artifact_is_not_sent(dialect: str) -> None:
    """An event names an artifact version that was never saved: the turn continues without it."""
    async with http(
        parts(served(yielding_agent(text_event("Hm.", artifact_delta={"nothing.txt": 3})))).app()
    ) as client:
        task = await ask(client, dialect)
    assert (answer_text(task), task.get("artifacts", [])) == ("Hm.", [])


async def test_stream_announces_each_adk_sub_agent_that_runs() -> None:
    """Announce each sub-agent that runs, also the agent of an AgentTool."""
    inner = llm_agent(["inner"], name="inner")
    second = llm_agent([call("inner", request="go")], ["second"], name="second", tools=[AgentTool(agent=inner)])
    root = SequentialAgent(name="root", sub_agents=[llm_agent(["first"], name="first"), second])
    async with http(parts(served(root)).app()) as client:
        frames = await stream(client)
    announced = [
        frame["statusUpdate"].get("metadata", {}).get("agentInvoked") for frame in frames if "statusUpdate" in frame
    ]
    assert [name for name in announced if name] == ["first", "second", "inner"]


async def test_model_error_fails_the_turn(dialect: str) -> None:
    """Let the model fail: the client does not receive the model's error message."""
    root = llm_agent([LlmResponse(error_code="SAFETY", error_message="the secret reason")])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "SAFETY" in str(answer_text(task))
    assert "secret" not in str(task)


@pytest.mark.parametrize(("reveals", "reason"), [(False, ""), (True, " Cannot reach https://example.org.")])
async def test_error_message_without_code_fails_the_turn(reveals: bool, reason: str) -> None:
    """Yield such an event, as ADK's RemoteA2aAgent does if it cannot reach its agent."""
    event = Event(author="remote", error_message="Cannot reach https://example.org.")
    async with http(parts(served(yielding_agent(event)), reveal_errors=reveals).app()) as client:
        task = await ask(client, "SendMessage")
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert answer_text(task) == f"The agent 'remote' gave no answer.{reason}"


async def test_incomplete_answer_of_model_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Stop the model after half an answer, as Gemini does at its token limit."""
    cut = Event(author="root", error_code="MAX_TOKENS", content=content(genai.Part(text="Half an")))
    async with http(parts(served(yielding_agent(cut))).app()) as client:
        task = await ask(client, "SendMessage")
    assert (task["status"]["state"], answer_text(task)) == ("TASK_STATE_COMPLETED", "Half an")
    assert "The model of 'root' stopped before the end of its answer: MAX_TOKENS." in caplog.text


THOUGHT = content(genai.Part(text="Hmm …", thought=True))


@pytest.mark.parametrize("thoughts", [None, THOUGHT], ids=["no content", "thoughts"])
async def test_partial_answer_is_discarded_if_model_fails(dialect: str, thoughts: genai.Content | None) -> None:
    """The model fails after half an answer: this half is not returned as the answer."""
    responses = ["Half an", LlmResponse(error_code="SAFETY", content=thoughts)]
    async with http(parts(served(llm_agent(list(responses)))).app()) as client:
        task = await ask(client, dialect)
        assert (task["status"]["state"], "SAFETY" in str(answer_text(task))) == ("TASK_STATE_FAILED", True)
    async with http(parts(served(llm_agent(list(responses)))).app()) as client:
        assert deltas(await stream(client)) == [("Half an", False, False), ("", True, True)]


BLANK = genai.Part(text="\n ")


@pytest.mark.parametrize("streamed", [[], ["\n "]], ids=["whole", "streamed"])
async def test_blank_answer_fails_the_turn(dialect: str, streamed: list[str]) -> None:
    """ADK itself reports that such a model has returned no content."""
    whole = LlmResponse(content=content(BLANK), finish_reason=genai.FinishReason.STOP)
    async with http(parts(served(llm_agent([*streamed, whole]))).app()) as client:
        task = await ask(client, dialect)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert answer_text(task) == "The model gave no answer: MODEL_RETURNED_NO_CONTENT."


async def test_picture_beside_blank_text_is_an_answer() -> None:
    picture = genai.Part.from_bytes(data=b"png", mime_type="image/png")
    cut = Event(author="root", error_code="MAX_TOKENS", content=content(BLANK, picture))
    async with http(parts(served(yielding_agent(cut))).app()) as client:
        task = await ask(client, "SendMessage")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [part.get("mediaType") for part in task["status"]["message"]["parts"]] == [None, "image/png"]


async def test_blank_text_without_error_is_an_answer(dialect: str) -> None:
    async with http(parts(served(yielding_agent(text_event("\n ")))).app()) as client:
        task = await ask(client, dialect)
    assert (task["status"]["state"], answer_text(task)) == ("TASK_STATE_COMPLETED", "\n ")


@pytest.mark.parametrize("before", [[], [BLANK]], ids=["call", "blank text and call"])
async def test_tools_that_a_cut_model_has_called_still_run(before: list[genai.Part]) -> None:
    """The model stops at its limit of tokens, after a whole call of a tool: ADK runs the tool."""
    call = genai.Part(function_call=genai.FunctionCall(id="c-1", name="rain", args={}))

    def rain() -> str:
        return "No rain."

    cut = LlmResponse(error_code="MAX_TOKENS", content=content(*before, call))
    async with http(parts(served(llm_agent([cut], ["Dry."], tools=[rain]))).app()) as client:
        task = await ask(client, "SendMessage")
    assert (task["status"]["state"], answer_text(task), earlier(task)) == ("TASK_STATE_COMPLETED", "Dry.", ["hi"])


def fails(ctx: Any) -> Event:
    raise ValueError


@pytest.mark.parametrize(
    "last",
    [fails, Event(error_code="SAFETY"), Event(error_code="MAX_TOKENS", content=THOUGHT)],
    ids=["error", "error code", "error code after thoughts"],
)
async def test_messages_before_a_failure_are_recorded(dialect: str, last: Any) -> None:
    said = yielding_agent(text_event("One."), text_event("Two."), last)
    async with http(parts(served(said)).app()) as client:
        task = await ask(client, dialect)
    assert (task["status"]["state"], earlier(task)) == ("TASK_STATE_FAILED", ["hi", "One.", "Two."])


async def test_answer_is_recorded_even_if_after_agent_callback_fails(dialect: str) -> None:
    async with http(parts(served(llm_agent(["All ", "fine."], after_agent_callback=fails))).app()) as client:
        task = await ask(client, dialect)
    assert (task["status"]["state"], earlier(task)) == ("TASK_STATE_FAILED", ["hi", "All fine."])


@pytest.mark.parametrize("name", ["root", "sub"])
async def test_agent_error_is_reported_without_its_text(dialect: str, name: str) -> None:
    """Let the root agent or a workflow step raise an error: the report is the same, without the error's text."""
    failing = llm_agent([ValueError("the secret")], name=name)
    root: BaseAgent = failing if name == "root" else SequentialAgent(name="root", sub_agents=[failing])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "ValueError" in str(answer_text(task))
    assert "secret" not in str(task)


# ── Outbox ────────────────────────────────────────────────────────────────────────────────────────────────────────────


FORMS: dict[str, Callable[[], Any]] = {
    "A2AOutbox": lambda: A2AOutbox(message=message("Done!")),
    "a Message": lambda: message("Done!"),
    "v1 JSON": lambda: {"role": "ROLE_AGENT", "parts": [{"text": "Done!"}]},
    "v0.3 JSON": lambda: {
        "kind": "message",
        "role": "agent",
        "messageId": "",
        "parts": [{"kind": "text", "text": "Done!"}],
    },
}


@pytest.mark.parametrize("form", FORMS)
async def test_message_in_a2a_outbox_is_the_answer(dialect: str, form: str) -> None:
    """Put a message into the outbox in each form: it replaces the model's text, and the server sets its ids."""
    given = text_event("Not this.", state_delta={"a2a_outbox": FORMS[form](), "kept": 1})
    async with http(
        parts(served(yielding_agent(text_event("On the way."), given, text_event("Nor this.")))).app()
    ) as client:
        task = await ask(client, dialect)
    assert (answer_text(task), earlier(task)) == ("Done!", ["hi", "On the way."])
    answer = task["status"]["message"]
    assert (answer["taskId"], answer["contextId"], bool(answer["messageId"])) == (task["id"], task["contextId"], True)


async def test_task_in_a2a_outbox_is_merged_into_stored_task(dialect: str) -> None:
    """Append history and artifacts, and merge metadata, but keep the stored task's ids and reserved keys."""
    patch = Task(
        id="not-mine",
        context_id="nor-mine",
        history=[message("First."), message("Last.")],
        artifacts=[Artifact(artifact_id="my-artifact", name="a", parts=[Part(text="content")])],
        metadata={"my_key": "my_value", "aion:network": "forged"},
    )
    given = text_event(state_delta={"a2a_outbox": A2AOutbox(task=patch)})
    async with http(parts(served(yielding_agent(given))).app()) as client:
        task = await ask(client, dialect)
    assert (answer_text(task), earlier(task)) == ("Last.", ["hi", "First."])
    assert [artifact["artifactId"] for artifact in task["artifacts"]] == ["my-artifact"]
    assert task["metadata"] == {"my_key": "my_value"}
    assert "not-mine" not in str(task)


async def test_failed_task_in_a2a_outbox_fails_the_turn(dialect: str) -> None:
    failed = Task(status=TaskStatus(state=TaskState.TASK_STATE_FAILED, message=message("No.")))
    async with http(parts(served(yielding_agent(text_event(state_delta={"a2a_outbox": failed})))).app()) as client:
        task = await ask(client, dialect)
    assert (task["status"]["state"], answer_text(task)) == ("TASK_STATE_FAILED", "No.")


async def test_invalid_a2a_outbox_fails_the_turn(dialect: str) -> None:
    async with http(parts(served(yielding_agent(text_event(state_delta={"a2a_outbox": 7})))).app()) as client:
        task = await ask(client, dialect)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "a2a_outbox" in str(answer_text(task))


async def test_a2a_outbox_is_not_stored_in_session_state(dialect: str) -> None:
    """Set an outbox and other state: only the latter is stored, so the next turn does not send the outbox again."""
    sessions = InMemorySessionService()
    once = text_event(state_delta={"a2a_outbox": A2AOutbox(message=message("Once.")), "kept": 1})
    turns: list[Callable[[Any], Any]] = [
        lambda ctx: [once, text_event("Beside.")],
        lambda ctx: text_event(f"{dict(ctx.session.state)}"),
    ]
    root = yielding_agent(lambda ctx: turns.pop(0)(ctx))
    async with http(parts(served(root, sessions)).app()) as client:
        first = await ask(client, dialect)
        second = await ask(client, dialect, "again", message_id="m-2", contextId=first["contextId"])
    assert (answer_text(first), answer_text(second)) == ("Once.", "{'kept': 1}")
    (stored,) = [session for user in sessions.sessions["test"].values() for session in user.values()]
    assert stored.state == {"kept": 1}
    assert not any("a2a_outbox" in event.actions.state_delta for event in stored.events)


async def test_next_adk_agent_does_not_see_previous_agents_outbox(dialect: str) -> None:
    """An agent or its tool sets an outbox: the next agent of the turn does not find it in the state."""

    def card(tool_context: ToolContext) -> str:
        """Make a card."""
        tool_context.state["a2a_outbox"] = A2AOutbox(message=message("A card."))
        return "made"

    first = llm_agent([call("card")], ["first"], name="first", tools=[card])
    seen: list[Any] = []

    def answer(ctx: Any) -> Event:
        seen.append(dict(ctx.session.state))
        return text_event("second")

    second = yielding_agent(answer)
    async with http(parts(served(SequentialAgent(name="root", sub_agents=[first, second]))).app()) as client:
        task = await ask(client, dialect)
    assert answer_text(task) == "A card."
    assert seen == [{}]


# ── Replies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_thread_reply_replaces_model_text_as_answer(dialect: str, caplog: pytest.LogCaptureFixture) -> None:
    async def reply() -> str:
        await get_aion_context().thread.reply("From the tool.")
        return "done"

    root = llm_agent([call("reply")], ["The model's words."], tools=[reply])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
    assert answer_text(task) == "From the tool."


async def test_reply_sent_in_chunks_is_streamed_as_one_message() -> None:
    class ChunkedReplyAgent(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
            async def chunks() -> AsyncGenerator[str, None]:
                yield "Hel"
                yield "lo."

            await get_aion_context().thread.reply(chunks())
            return
            yield

    async with http(parts(served(ChunkedReplyAgent(name="speaks"))).app()) as client:
        frames = await stream(client)
    assert deltas(frames) == [("Hel", False, False), ("lo.", True, False), ("", True, True)]
    ended = frames[-1]["statusUpdate"]["status"]
    assert (ended["state"], ended["message"]["parts"]) == ("TASK_STATE_COMPLETED", [{"text": "Hello."}])


async def test_tool_without_event_loop_can_send_reply(dialect: str) -> None:
    """ADK runs the tool in a thread without an event loop: the tool starts one for `thread.reply`."""

    def reply() -> str:
        asyncio.run(get_aion_context().thread.reply("From a thread."))
        return "done"

    root = llm_agent([call("reply")], ["Beside."], tools=[reply])
    async with http(parts(served(root)).app()) as client:
        assert answer_text(await ask(client, dialect)) == "From a thread."
