"""ADK agents through HTTP: what goes in, what comes out, in both dialects."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncGenerator, Callable
from types import ModuleType
from typing import Any

import pytest
from a2a.types import Artifact, Message, Part, Role, Task, TaskState, TaskStatus
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.memory import InMemoryMemoryService
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins import BasePlugin
from google.adk.sessions import InMemorySessionService
from google.adk.tools import ToolContext, exit_loop, load_memory
from google.adk.tools.agent_tool import AgentTool
from google.genai import types as genai

from aion.adk import get_aion_context
from aion.shared.types import A2AOutbox
from tests.support.adk import (
    DIALECTS,
    ScriptedLlm,
    agent,
    ask,
    ask_parts,
    call,
    content,
    deltas,
    history,
    said,
    saying,
    says,
    served,
    stream,
    texts,
)
from tests.support.service import http, parts


@pytest.fixture(params=DIALECTS, ids=["v1", "v0.3"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def llm(*scripts: list[Any], name: str = "root", **options: Any) -> LlmAgent:
    return LlmAgent(name=name, model=saying(*scripts), **options)


def message(text: str) -> Message:
    return Message(role=Role.ROLE_AGENT, parts=[Part(text=text)])


# ── Input ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def parts_seen(dialect: str, *given: dict[str, Any]) -> list[genai.Part]:
    model = saying(["Seen."])
    async with http(parts(served(LlmAgent(name="root", model=model))).app()) as client:
        assert said(await ask_parts(client, dialect, *given)) == "Seen."
    return list(model.seen[0][-1].parts or [])


async def test_every_part_reaches_the_model_as_adk_has_it(dialect: str) -> None:
    """R83: a number that is whole stays so."""
    text, raw, url, data = await parts_seen(
        dialect,
        {"text": "Look:"},
        {"raw": base64.b64encode(b"pixels").decode(), "mediaType": "image/png"},
        {"url": "https://example.org/a.pdf", "mediaType": "application/pdf"},
        {"data": {"count": 3, "of": ["a", 1.5]}},
    )
    assert text.text == "Look:"
    assert raw.inline_data is not None
    assert (raw.inline_data.mime_type, raw.inline_data.data) == ("image/png", b"pixels")
    assert url.file_data is not None
    assert (url.file_data.mime_type, url.file_data.file_uri) == ("application/pdf", "https://example.org/a.pdf")
    assert json.loads(str(data.text)) == {"count": 3, "of": ["a", 1.5]}
    assert "3.0" not in str(data.text)


@pytest.mark.parametrize(
    ("named", "mime_type"),
    [
        ({"mediaType": "text/x-own", "filename": "a.png"}, "text/x-own"),
        ({"filename": "a.png"}, "image/png"),
        ({"filename": "a.nobodyknows"}, "application/octet-stream"),
        ({}, "application/octet-stream"),
    ],
)
@pytest.mark.parametrize("kind", ["raw", "url"])
async def test_a_files_mime_type_is_explicit_else_guessed_from_its_name_else_octets(
    dialect: str, kind: str, named: dict[str, str], mime_type: str
) -> None:
    """R84: for content and for addresses."""
    held = {"raw": base64.b64encode(b"x").decode()} if kind == "raw" else {"url": "https://example.org/file"}
    (part,) = await parts_seen(dialect, {**held, **named})
    file = part.inline_data or part.file_data
    assert file is not None
    assert file.mime_type == mime_type


async def test_a_message_with_nothing_usable_is_its_plain_text(dialect: str) -> None:
    """R85: the request's plain text is all there is, even where that is empty."""
    async with http(parts(served(agent(lambda ctx: says(repr(ctx.user_content.parts[0].text))))).app()) as client:
        assert said(await ask(client, dialect, "")) == "''"


class Own(BaseAgent):
    """Answers with what its context knows."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        inbox = ctx.a2a_inbox
        files = [part.filename for part in inbox.message.parts if part.filename]
        yield says(f"{self.name} {inbox.task.id == get_aion_context().inbox.task.id} {files} {inbox.metadata}")


async def test_every_agent_callback_and_tool_finds_the_inbox(dialect: str) -> None:
    """R86: sub-agents, transferred ones, callbacks, tools."""
    seen: dict[str, str] = {}

    def before(callback_context: Any) -> None:
        seen["callback"] = callback_context._invocation_context.a2a_inbox.message.message_id

    def look(tool_context: ToolContext) -> str:
        """Look."""
        seen["tool"] = tool_context._invocation_context.a2a_inbox.message.message_id  # type: ignore[attr-defined]
        return "looked"

    helper = llm([call("look")], ["done"], name="helper", tools=[look], before_agent_callback=before)
    root = SequentialAgent(
        name="root",
        sub_agents=[
            LoopAgent(name="loop", max_iterations=1, sub_agents=[helper]),
            ParallelAgent(name="both", sub_agents=[Own(name="own")]),
        ],
    )
    async with http(parts(served(root)).app()) as client:
        task = await ask_parts(client, dialect, {"text": "hi"}, {"url": "https://example.org/a", "filename": "a"})
    assert said(task) == "own True ['a'] {}"
    assert seen == {"callback": "m-1", "tool": "m-1"}


async def test_an_agent_tool_finds_the_turn(dialect: str) -> None:
    """R86: its inner Runner is not ours, so the context is what is asked."""

    def whose(tool_context: ToolContext) -> str:
        """Say whose turn it is."""
        context = get_aion_context()
        assert context.message is not None
        return context.message.id

    inner = llm([call("whose")], [lambda request: texts(request.contents)[-1]], name="inner", tools=[whose])
    root = llm(
        [call("inner", request="go")], [lambda request: texts(request.contents)[-1]], tools=[AgentTool(agent=inner)]
    )
    async with http(parts(served(root)).app()) as client:
        assert "'m-1'" in str(said(await ask(client, dialect)))


# ── What comes out ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_last_whole_text_is_the_reply_and_what_came_before_are_messages_on_the_way(dialect: str) -> None:
    """Section 3, ADK's plain case."""
    async with http(parts(served(agent(says("One."), says("Two."), says("Three.")))).app()) as client:
        task = await ask(client, dialect)
    assert (said(task), history(task)) == ("Three.", ["hi", "One.", "Two."])
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_what_is_streamed_and_then_said_as_a_whole_is_said_once(dialect: str) -> None:
    """R90: the aggregated event closes the stream, and is the message."""
    root = llm(["Let me ", "see.", call("look")], ["All ", "fine."], tools=[look])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
    assert (said(task), history(task)) == ("All fine.", ["hi", "Let me see."])


async def test_partial_events_are_streamed_as_they_come_with_one_closing_each() -> None:
    """R90, D9, D10."""
    root = llm(["Let me ", "see.", call("look")], ["All ", "fine."], tools=[look])
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
    """Look."""
    return "a file"


async def test_a_stream_that_nothing_closes_is_the_reply(dialect: str) -> None:
    """R89."""
    streamed = [says("One."), says("Tw", partial=True), says("o", partial=True)]
    async with http(parts(served(agent(*streamed))).app()) as client:
        task = await ask(client, dialect)
    assert (said(task), history(task)) == ("Two", ["hi", "One."])


async def test_a_stream_that_a_whole_event_closes_is_no_reply_of_its_own(dialect: str) -> None:
    """R89: only where the last event was partial."""
    async with http(parts(served(agent(says("Teh", partial=True), says("The answer.")))).app()) as client:
        task = await ask(client, dialect)
    assert (said(task), history(task)) == ("The answer.", ["hi"])


async def test_branches_that_speak_at_once_are_not_woven_into_one(dialect: str) -> None:
    """R61, R63: each agent's chunks are a stream delta of their own."""
    both = ParallelAgent(
        name="both",
        sub_agents=[llm(["a1 ", "a2 ", "a3"], name="first"), llm(["b1 ", "b2 ", "b3"], name="second")],
    )
    async with http(parts(served(both)).app()) as client:
        spoken = "".join(text for text, _, _ in deltas(await stream(client)))
    assert spoken in ("a1 a2 a3b1 b2 b3", "b1 b2 b3a1 a2 a3")


async def test_files_and_code_are_parts_of_the_answer_thoughts_and_calls_are_not(dialect: str) -> None:
    """R83 the other way, R40: a user gets what is meant for one."""
    answer = says(
        "Here.",
        parts=[
            genai.Part(text="hm, maybe", thought=True),
            genai.Part(inline_data=genai.Blob(mime_type="image/png", data=b"pixels", display_name="a.png")),
            genai.Part(file_data=genai.FileData(mime_type="application/pdf", file_uri="https://example.org/a.pdf")),
            genai.Part(executable_code=genai.ExecutableCode(code="1+1", language=genai.Language.PYTHON)),
            genai.Part(code_execution_result=genai.CodeExecutionResult(outcome=genai.Outcome.OUTCOME_OK, output="2")),
            genai.Part(function_response=genai.FunctionResponse(id="c", name="look", response={"secret": 1})),
        ],
    )
    async with http(parts(served(agent(answer))).app()) as client:
        task = await ask(client, dialect)
    got = task["status"]["message"]["parts"]
    assert [{key: part[key] for key in part if key != "metadata"} for part in got] == [
        {"text": "Here."},
        {"raw": base64.b64encode(b"pixels").decode(), "mediaType": "image/png", "filename": "a.png"},
        {"url": "https://example.org/a.pdf", "mediaType": "application/pdf"},
        {"data": {"executableCode": {"code": "1+1", "language": "PYTHON"}}},
        {"data": {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}},
    ]


async def test_thoughts_are_not_streamed() -> None:
    """R105."""
    thinking = Event(partial=True, content=content(genai.Part(text="hm", thought=True)))
    async with http(parts(served(agent(thinking, says("So", partial=True), says("So.")))).app()) as client:
        frames = await stream(client)
    assert deltas(frames) == [("So", False, False), ("", True, True)]


async def test_a_saved_artifact_is_an_artifact_with_its_version(dialect: str) -> None:
    """R41: a later version takes the place of the one before."""

    async def save(tool_context: ToolContext, text: str) -> str:
        """Save."""
        await tool_context.save_artifact(
            "notes.txt", genai.Part(inline_data=genai.Blob(mime_type="text/plain", data=text.encode()))
        )
        return "saved"

    root = llm([call("save", text="one")], [call("save", text="two")], ["Saved."], tools=[save])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
    (artifact,) = task["artifacts"]
    assert artifact["name"] == "notes.txt"
    assert artifact["metadata"] == {"version": 1}
    assert artifact["parts"][0]["raw"] == base64.b64encode(b"two").decode()
    assert artifact["parts"][0]["filename"] == "notes.txt"


@pytest.mark.parametrize(
    ("saved", "shown"),
    [
        (genai.Part(inline_data=genai.Blob(mime_type="text/csv", data=b"")), {"raw": "", "mediaType": "text/csv"}),
        (genai.Part(text=""), {"text": ""}),
    ],
    ids=["bytes", "text"],
)
async def test_an_empty_file_is_an_artifact_too(saved: genai.Part, shown: dict[str, Any], dialect: str) -> None:
    """R41: an artifact has at least one part."""

    async def save(tool_context: ToolContext) -> str:
        """Save."""
        await tool_context.save_artifact("empty.csv", saved)
        return "saved"

    root = llm([call("save")], ["Saved."], tools=[save])
    async with http(parts(served(root)).app()) as client:
        (artifact,) = (await ask(client, dialect))["artifacts"]
    (part,) = artifact["parts"]
    assert {key: part.get(key) for key in shown} == shown


async def test_an_artifact_that_is_not_there_is_not_told(dialect: str) -> None:
    """R41: an event may name what nobody has saved."""
    async with http(parts(served(agent(says("Hm.", artifact_delta={"nothing.txt": 3})))).app()) as client:
        task = await ask(client, dialect)
    assert (said(task), task.get("artifacts", [])) == ("Hm.", [])


async def test_the_client_hears_which_sub_agent_is_invoked() -> None:
    """R39: also one that is a tool."""
    inner = llm(["inner"], name="inner")
    second = llm([call("inner", request="go")], ["second"], name="second", tools=[AgentTool(agent=inner)])
    root = SequentialAgent(name="root", sub_agents=[llm(["first"], name="first"), second])
    async with http(parts(served(root)).app()) as client:
        frames = await stream(client)
    told = [
        frame["statusUpdate"].get("metadata", {}).get("agentInvoked") for frame in frames if "statusUpdate" in frame
    ]
    assert [name for name in told if name] == ["first", "second", "inner"]


async def test_internal_events_are_logged_and_told_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """R38."""
    caplog.set_level(logging.INFO, "aion_core.internal")
    root = llm([call("look", "call-1")], ["Fine."], tools=[look])
    async with http(parts(served(root)).app()) as client:
        frames = await stream(client)
    logged = [record.internal for record in caplog.records if hasattr(record, "internal")]
    kinds = [event["kind"].removeprefix("internal:") for event in logged]
    assert [kind for kind in kinds if kind != "checkpoint"] == ["llm-call", "tool-start", "tool-complete", "llm-call"]
    assert "checkpoint" in kinds
    started = next(event for event in logged if event["kind"] == "internal:tool-start")
    assert (started["toolName"], started["toolCallId"]) == ("look", "call-1")
    assert "internal:" not in str(frames)


async def test_a_model_that_fails_without_an_answer_fails_the_turn(dialect: str) -> None:
    """R36, D14."""
    root = llm([LlmResponse(error_code="SAFETY", error_message="the secret reason")])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "SAFETY" in str(said(task))
    assert "secret" not in str(task)


async def test_what_was_streamed_is_no_answer_where_the_model_then_fails(dialect: str) -> None:
    """R36, R89: half an answer is not passed off as a whole one."""
    root = llm(["Half an", LlmResponse(error_code="SAFETY")])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
        assert (task["status"]["state"], "SAFETY" in str(said(task))) == ("TASK_STATE_FAILED", True)
    async with http(parts(served(llm(["Half an", LlmResponse(error_code="SAFETY")]))).app()) as client:
        assert deltas(await stream(client)) == [("Half an", False, False), ("", True, True)]


@pytest.mark.parametrize("name", ["root", "sub"])
async def test_what_an_agent_raises_fails_the_turn_with_a_safe_sentence(dialect: str, name: str) -> None:
    """R36, D14: of the root, and within a workflow."""
    failing = llm([ValueError("the secret")], name=name)
    root: BaseAgent = failing if name == "root" else SequentialAgent(name="root", sub_agents=[failing])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "ValueError" in str(said(task))
    assert "secret" not in str(task)


# ── The outbox ────────────────────────────────────────────────────────────────────────────────────────────────────────


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
async def test_an_outbox_message_is_the_answer(dialect: str, form: str) -> None:
    """R87, R88, D16: in any form, with the server's ids, and no text outranks it."""
    given = says("Not this.", state_delta={"a2a_outbox": FORMS[form](), "kept": 1})
    async with http(parts(served(agent(says("On the way."), given, says("Nor this.")))).app()) as client:
        task = await ask(client, dialect)
    assert (said(task), history(task)) == ("Done!", ["hi", "On the way."])
    answer = task["status"]["message"]
    assert (answer["taskId"], answer["contextId"], bool(answer["messageId"])) == (task["id"], task["contextId"], True)


async def test_an_outbox_task_is_a_patch(dialect: str) -> None:
    """R78, R88: history and artifacts are added, metadata is merged, the server's ids and keys stay."""
    patch = Task(
        id="not-mine",
        context_id="nor-mine",
        history=[message("First."), message("Last.")],
        artifacts=[Artifact(artifact_id="my-artifact", name="a", parts=[Part(text="content")])],
        metadata={"my_key": "my_value", "aion:network": "forged"},
    )
    given = says(state_delta={"a2a_outbox": A2AOutbox(task=patch)})
    async with http(parts(served(agent(given))).app()) as client:
        task = await ask(client, dialect)
    assert (said(task), history(task)) == ("Last.", ["hi", "First."])
    assert [artifact["artifactId"] for artifact in task["artifacts"]] == ["my-artifact"]
    assert task["metadata"] == {"my_key": "my_value"}
    assert "not-mine" not in str(task)


async def test_an_outbox_task_that_failed_fails_the_turn(dialect: str) -> None:
    """R78."""
    failed = Task(status=TaskStatus(state=TaskState.TASK_STATE_FAILED, message=message("No.")))
    async with http(parts(served(agent(says(state_delta={"a2a_outbox": failed})))).app()) as client:
        task = await ask(client, dialect)
    assert (task["status"]["state"], said(task)) == ("TASK_STATE_FAILED", "No.")


async def test_an_outbox_that_is_none_fails_the_turn_with_a_sentence(dialect: str) -> None:
    """D16."""
    async with http(parts(served(agent(says(state_delta={"a2a_outbox": 7})))).app()) as client:
        task = await ask(client, dialect)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "a2a_outbox" in str(said(task))


async def test_the_session_never_holds_the_outbox_and_the_next_turn_does_not_repeat_it(dialect: str) -> None:
    """R88, section 3: taken out before the session stores it; what else the delta says is kept."""
    sessions = InMemorySessionService()
    once = says(state_delta={"a2a_outbox": A2AOutbox(message=message("Once.")), "kept": 1})
    turns = [lambda ctx: [once, says("Beside.")], lambda ctx: says(f"{dict(ctx.session.state)}")]
    root = agent(lambda ctx: turns.pop(0)(ctx))
    async with http(parts(served(root, sessions)).app()) as client:
        first = await ask(client, dialect)
        second = await ask(client, dialect, "again", message_id="m-2", contextId=first["contextId"])
    assert (said(first), said(second)) == ("Once.", "{'kept': 1}")
    (stored,) = [session for user in sessions.sessions["test"].values() for session in user.values()]
    assert stored.state == {"kept": 1}
    assert not any("a2a_outbox" in event.actions.state_delta for event in stored.events)


async def test_later_agents_do_not_find_the_outbox_in_the_state(dialect: str) -> None:
    """R88: neither where a tool has set it."""

    def card(tool_context: ToolContext) -> str:
        """Make a card."""
        tool_context.state["a2a_outbox"] = A2AOutbox(message=message("A card."))
        return "made"

    first = llm([call("card")], ["first"], name="first", tools=[card])
    seen: list[Any] = []
    second = agent(lambda ctx: seen.append(dict(ctx.session.state)) or says("second"))
    async with http(parts(served(SequentialAgent(name="root", sub_agents=[first, second]))).app()) as client:
        task = await ask(client, dialect)
    assert said(task) == "A card."
    assert seen == [{}]


# ── Replies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_reply_is_the_answer_whatever_else_is_said(dialect: str, caplog: pytest.LogCaptureFixture) -> None:
    """D5, R58, R73: from a tool, and over an outbox, of which the artifacts still merge."""

    async def reply() -> str:
        """Reply."""
        await get_aion_context().thread.reply("From the tool.")
        return "done"

    root = llm([call("reply")], ["The model's words."], tools=[reply])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, dialect)
    assert said(task) == "From the tool."


async def test_a_reply_in_chunks_is_streamed_and_is_one_message() -> None:
    """R55, S2."""

    class Speaks(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
            async def chunks() -> AsyncGenerator[str, None]:
                yield "Hel"
                yield "lo."

            await get_aion_context().thread.reply(chunks())
            return
            yield

    async with http(parts(served(Speaks(name="speaks"))).app()) as client:
        frames = await stream(client)
    assert deltas(frames) == [("Hel", False, False), ("lo.", True, False), ("", True, True)]
    ended = frames[-1]["statusUpdate"]["status"]
    assert (ended["state"], ended["message"]["parts"]) == ("TASK_STATE_COMPLETED", [{"text": "Hello."}])


async def test_a_synchronous_tool_may_reply_from_its_thread(dialect: str) -> None:
    """R55: it has no event loop, and its thread is not the server's."""

    def reply() -> str:
        """Reply."""
        asyncio.run(get_aion_context().thread.reply("From a thread."))
        return "done"

    root = llm([call("reply")], ["Beside."], tools=[reply])
    async with http(parts(served(root)).app()) as client:
        assert said(await ask(client, dialect)) == "From a thread."


# ── Sessions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_second_agent_sees_the_first_ones_event_and_the_next_turn_sees_both(dialect: str) -> None:
    """R43: also where another adapter, a restarted process, goes on with the session."""
    sessions = InMemorySessionService()
    model = saying(["first"], ["second"])
    again = saying(["third"], ["fourth"])

    def root(model: ScriptedLlm) -> SequentialAgent:
        names = ("one", "two")
        return SequentialAgent(name="root", sub_agents=[LlmAgent(name=name, model=model) for name in names])

    async with http(parts(served(root(model), sessions)).app()) as client:
        first = await ask(client, dialect)
    async with http(parts(served(root(again), sessions)).app()) as client:
        await ask(client, dialect, "again", message_id="m-2", contextId=first["contextId"])
    assert any("first" in line for line in texts(model.seen[1]))
    seen = texts(again.seen[0])
    assert [line for line in seen if "first" in line]
    assert [line for line in seen if "second" in line]


async def test_author_and_branch_are_left_as_adk_set_them() -> None:
    """Section 3."""
    sessions = InMemorySessionService()
    root = ParallelAgent(name="both", sub_agents=[llm(["a"], name="first"), llm(["b"], name="second")])
    async with http(parts(served(root, sessions)).app()) as client:
        await ask(client, "SendMessage")
    (stored,) = [session for user in sessions.sessions["test"].values() for session in user.values()]
    said_by = {event.author: event.branch for event in stored.events if event.content and event.author != "user"}
    assert set(said_by) == {"first", "second"}
    assert all(branch and name in branch for name, branch in said_by.items())


class Greeting(BasePlugin):
    """Puts a word before every user's message, and one after every event."""

    def __init__(self) -> None:
        super().__init__("greeting")

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> Any:
        return genai.Content(role="user", parts=[genai.Part(text="Please:"), *user_message.parts])

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> Event | None:
        if event.partial or not event.content or not event.content.parts or not event.content.parts[0].text:
            return None
        return event.model_copy(update={"content": content(genai.Part(text=f"{event.content.parts[0].text} Bye."))})


async def test_an_app_keeps_its_plugins_and_is_left_as_it_is(dialect: str) -> None:
    """Section 3: the real Runner, with all that it does; an outbox goes out whatever a plugin makes of its event."""
    model = saying(["Hello."])
    app = App(name="mine", root_agent=LlmAgent(name="root", model=model), plugins=[Greeting()])
    async with http(parts(served(app)).app()) as client:
        assert said(await ask(client, dialect)) == "Hello. Bye."
    assert texts(model.seen[0]) == ["user: Please:", "user: hi"]
    assert [plugin.name for plugin in app.plugins] == ["greeting"]
    assert app.resumability_config is None


async def test_a_loop_ends_where_its_agent_escalates(dialect: str) -> None:
    """R43."""
    once = llm(["again"], [call("exit_loop")], name="once", tools=[exit_loop])
    async with http(parts(served(LoopAgent(name="loop", sub_agents=[once], max_iterations=5))).app()) as client:
        task = await ask(client, dialect)
    assert (task["status"]["state"], said(task)) == ("TASK_STATE_COMPLETED", "again")


async def test_an_agent_transfers_to_another_which_goes_on_with_the_next_turn(dialect: str) -> None:
    """R39, R43."""
    helper = llm(["I help."], ["Still me."], name="helper", description="Helps.")
    root = llm([call("transfer_to_agent", agent_name="helper")], sub_agents=[helper])
    async with http(parts(served(root)).app()) as client:
        first = await ask(client, dialect)
        second = await ask(client, dialect, "and?", message_id="m-2", contextId=first["contextId"])
    assert (said(first), said(second)) == ("I help.", "Still me.")


async def test_the_configuration_is_in_the_state_and_is_never_stored(dialect: str) -> None:
    """aion.yaml: an instruction's {placeholder} finds it; what the agent sets itself outranks it."""
    sessions = InMemorySessionService()
    model = saying(["Fine."], ["Fine."])
    root = LlmAgent(name="root", model=model, instruction="Use {provider}, in {tone}.")
    adk = served(root, sessions, configuration={"provider": "maps", "tone": {"of": ["voice"]}})
    async with http(parts(adk).app()) as client:
        await ask(client, dialect)
    assert "Use maps, in {'of': ['voice']}." in str(model.instructions[0])
    (stored,) = [session for user in sessions.sessions["test"].values() for session in user.values()]
    assert stored.state == {}


async def test_what_an_agent_adds_to_its_memory_it_finds_in_another_conversation(dialect: str) -> None:
    """Section 3: memory, of the module's own service where it holds one."""

    async def remember(callback_context: CallbackContext) -> None:
        await callback_context.add_session_to_memory()

    module = ModuleType("an_agents_module")
    module.__dict__["memory_service"] = memory = InMemoryMemoryService()
    model = saying(["Noted."], [call("load_memory", query="milk")], [lambda request: texts(request.contents)[-1]])
    root = LlmAgent(name="root", model=model, tools=[load_memory], after_agent_callback=remember)
    async with http(parts(served(root, module=module)).app()) as client:
        await ask(client, dialect, "Buy milk.")
        found = await ask(client, dialect, "What was I to buy?", message_id="m-2")
    assert "Buy milk." in str(said(found))
    assert (await memory.search_memory(app_name="test", user_id="somebody else", query="milk")).memories == []


async def test_an_agent_does_not_run_ahead_of_what_is_recorded() -> None:
    """Fixed decision 2, section 3: when the agent goes on after an event, the log holds what the event says."""
    seen: list[list[str]] = []

    async def recorded() -> list[str]:
        (key,) = made.store.task_keys()  # type: ignore[attr-defined]
        log = await made.store.log(key)
        assert log is not None
        return [entry.event.artifact.name for entry in log.events if hasattr(entry.event, "artifact")]

    class Saves(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
            where = {"app_name": ctx.app_name, "user_id": ctx.user_id, "session_id": ctx.session.id}
            for name in ("one", "two"):
                part = genai.Part(text=name)
                version = await ctx.artifact_service.save_artifact(**where, filename=name, artifact=part)
                event = says(artifact_delta={name: version})
                yield event.model_copy(update={"author": self.name})
                seen.append(
                    [*await recorded(), *(event.id for event in ctx.session.events[-1:] if event.author != self.name)]
                )

    made = parts(served(Saves(name="saves")))
    async with http(made.app()) as client:
        await ask(client, "SendMessage")
    assert seen == [["one"], ["one", "two"]]


class Summary(BaseEventsSummarizer):
    """Sums up so many events, without a model."""

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event:
        times = [event.timestamp for event in events]
        summed = EventCompaction(
            start_timestamp=min(times),
            end_timestamp=max(times),
            compacted_content=content(genai.Part(text="SUMMED UP")),
        )
        return Event(author="user", invocation_id=Event.new_id(), actions=EventActions(compaction=summed))


async def test_an_apps_compaction_works(dialect: str) -> None:
    """Section 3: what is said next stands on the summary."""
    model = saying(["One."], ["Two."])
    compaction = EventsCompactionConfig(summarizer=Summary(), compaction_interval=1, overlap_size=0)
    app = App(name="mine", root_agent=LlmAgent(name="root", model=model), events_compaction_config=compaction)
    async with http(parts(served(app)).app()) as client:
        first = await ask(client, dialect)
        second = await ask(client, dialect, "and?", message_id="m-2", contextId=first["contextId"])
    assert (said(first), said(second)) == ("One.", "Two.")
    assert texts(model.seen[1]) == ["model: SUMMED UP", "user: and?"]
