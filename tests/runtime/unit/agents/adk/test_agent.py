"""ADK agents: loading from a file, and the features of an App."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from google.adk import Workflow
from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.memory import InMemoryMemoryService
from google.adk.plugins import BasePlugin
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools.exit_loop_tool import exit_loop
from google.adk.tools.load_memory_tool import load_memory_tool as load_memory
from google.genai import types as genai
from msgspec.structs import replace

from aion_core.bootstrap import build_app
from aion_core.engine.agent import Agent
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.frameworks import FRAMEWORKS, AgentDependencies
from aion_core.loading.lazy_agent import LazyAgent
from aion_core.loading.objects.loaded import LoadedObject
from aion_core.settings import Settings
from tests.support.adk import (
    ScriptedLlm,
    answer_text,
    ask,
    call,
    content,
    llm_agent,
    scripted_model,
    served,
    text_event,
    texts,
    yielding_agent,
)
from tests.support.service import http, parts

ROOT = Path(__file__).parents[5]
SOURCE = """
from collections.abc import AsyncGenerator
from google.adk import Workflow
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.apps import App
from google.adk.events import Event
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

class NamedAgent(BaseAgent):
    async def _run_async_impl(self, ctx) -> AsyncGenerator[Event, None]:
        yield Event(author=self.name, content=types.ModelContent(f"I am {self.name}."))
"""
FILES = {
    "an instance": ("mine = NamedAgent(name='mine')", "I am mine."),
    "a class": ("", "I am NamedAgent."),
    "a function": ("def make():\n    return NamedAgent(name='made')", "I am made."),
    "an async function": ("async def make():\n    return NamedAgent(name='made')", "I am made."),
    "an App": ("inner = NamedAgent(name='inner')\napp = App(name='app', root_agent=inner)", "I am inner."),
    "a sequence": (
        "one = NamedAgent(name='one')\nroot_agent = SequentialAgent(name='root', sub_agents=[one])",
        "I am one.",
    ),
    "in parallel": ("one = NamedAgent(name='one')\nroot = ParallelAgent(name='root', sub_agents=[one])", "I am one."),
    "a loop": (
        "one = NamedAgent(name='one')\nr = LoopAgent(name='r', sub_agents=[one], max_iterations=1)",
        "I am one.",
    ),
    "a workflow": ("one = NamedAgent(name='one')\nw = Workflow(name='w', edges=[('START', one)])", "I am one."),
}


NO_DEPENDENCIES: AgentDependencies = cast("AgentDependencies", None)


def build_agent(loaded: LoadedObject, config: AgentConfig, dependencies: AgentDependencies) -> Agent:
    """Make the adapter use the session services of this test's database."""
    return served(loaded.agent, name=config.name)


@pytest.fixture
def own_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FRAMEWORKS, "adk", replace(FRAMEWORKS["adk"], adapter=__name__))


def loaded(file: Path, name: str = "") -> LazyAgent:
    return LazyAgent("agent", AgentConfig(path=f"{file.name}{name}"), file.parent, NO_DEPENDENCIES)


@pytest.mark.usefixtures("own_sessions")
@pytest.mark.parametrize("export", FILES)
async def test_exported_adk_agent_is_found(export: str, tmp_path: Path) -> None:
    """An agent file may contain several agents: an agent that is a sub-agent of another is not the one to serve."""
    code, answer = FILES[export]
    file = tmp_path / f"adk_{export.replace(' ', '_')}.py"
    file.write_text(SOURCE + code)
    name = ":make" if "make" in code else ""
    async with http(parts(loaded(file, name)).app()) as client:
        assert answer_text(await ask(client, "SendMessage")) == answer


@pytest.mark.usefixtures("own_sessions")
@pytest.mark.parametrize("is_package", [True, False])
@pytest.mark.parametrize("path", ["{}/agent.py", "{}/agent.py:root_agent", "{}.agent"])
async def test_agent_file_may_use_relative_imports(path: str, is_package: bool, tmp_path: Path) -> None:
    """The file imports its agent from a neighbour file, in the folder layout that `adk create` makes."""
    name = f"dotted_{abs(hash((path, is_package)))}"
    folder = tmp_path / name
    folder.mkdir()
    if is_package:
        (folder / "__init__.py").write_text("from . import agent")
    (folder / "named.py").write_text(SOURCE)
    (folder / "agent.py").write_text("from .named import NamedAgent\nroot_agent = NamedAgent(name='dotted')")
    agent = LazyAgent("agent", AgentConfig(path=path.format(name)), tmp_path, NO_DEPENDENCIES)
    async with http(parts(agent).app()) as client:
        assert answer_text(await ask(client, "SendMessage")) == "I am dotted."


@pytest.mark.usefixtures("own_sessions")
def test_two_agents_in_one_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "adk_two.py"
    file.write_text(f"{SOURCE}one = NamedAgent(name='one')\ntwo = NamedAgent(name='two')")
    with pytest.raises(ConfigurationError, match="holds several agents: one, two"):
        loaded(file).load()


@pytest.mark.usefixtures("own_sessions")
def test_invalid_agent_name_is_reported_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "adk_broken.py"
    file.write_text(f"{SOURCE}root = NamedAgent(name='no name')")
    with pytest.raises(ConfigurationError, match=r"adk_broken\.py cannot be imported"):
        loaded(file).load()


@pytest.mark.parametrize("dialect", ["SendMessage", "message/send"])
async def test_adk_example_answers_and_continues_session(dialect: str, tmp_path: Path) -> None:
    """Send two messages in one context: the second continues the session. Sessions and artifacts are in memory."""
    config = tmp_path / "aion.yaml"
    config.write_text(f"aion: {{agents: {{count: {{path: {ROOT / 'examples/adk/agent.py'}}}}}}}")
    settings = Settings.from_environ({"AION_STORE": "memory", "AION_CONFIG": str(config)})
    async with http(build_app(settings)) as client:
        task = await ask(client, dialect, "one two three")
        assert answer_text(task) == "Your message has 3 words."
        again = await ask(client, dialect, "four", message_id="m-2", contextId=task["contextId"])
        assert answer_text(again) == "Your message has 1 word."


def test_workflow_with_node_of_its_name_is_refused() -> None:
    """The end of the node would be taken for the end of the turn."""
    inner = Workflow(name="inner", edges=[("START", llm_agent(["Hi."], name="root"))])
    with pytest.raises(ConfigurationError, match="a node of the Workflow has its name, 'root'"):
        served(Workflow(name="root", edges=[("START", inner)]))


def test_dynamodb_sessions_need_an_encryption_key(tmp_path: Path) -> None:
    """The error names the missing variable."""
    config = tmp_path / "aion.yaml"
    config.write_text(f"aion: {{agents: {{count: {{path: {ROOT / 'examples/adk/agent.py'}}}}}}}")
    from aion_core.bootstrap.telemetry import build_telemetry
    from aion_core.bootstrap.turns import build_turn_services

    environ = {
        "AION_TABLE": "t",
        "AION_BUCKET": "b",
        "AION_TASK_QUEUE_URL": "https://sqs/q",
        "AION_CONFIG": str(config),
    }
    settings = Settings.from_environ(environ)
    with pytest.raises(ConfigurationError, match="AION_KMS_KEY"):
        build_turn_services(settings, build_telemetry(settings)).agents["count"].load()


@pytest.mark.deep
@pytest.mark.parametrize(
    ("path", "loads", "never"),
    [
        pytest.param("examples/adk/agent.py", "google.adk", "langgraph", id="ADK"),
        pytest.param("examples/echo/agent.py", "langgraph", "google.adk", id="LangGraph"),
    ],
)
def test_first_turn_imports_only_framework_of_its_agent(path: str, loads: str, never: str, tmp_path: Path) -> None:
    """Compare `sys.modules` before and after the first turn: it loads the agent's own framework only."""
    config = tmp_path / "aion.yaml"
    config.write_text(f"aion: {{agents: {{one: {{path: {ROOT / path}}}}}}}")
    program = f"""
import asyncio, sys, httpx
from aion_core.bootstrap import build_app
from aion_core.settings import Settings
app = build_app(Settings.from_environ({{"AION_STORE": "memory", "AION_CONFIG": {str(config)!r}}}))
before = {loads!r} in sys.modules
async def main():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        message = {{"messageId": "m", "role": "ROLE_USER", "parts": [{{"text": "hi"}}]}}
        answer = await client.post(
            "/", json={{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {{"message": message}}}}
        )
        print(answer.json()["result"]["task"]["status"]["state"])
asyncio.run(main())
print(before, {loads!r} in sys.modules, [name for name in sys.modules if name.partition(".")[0] == {never!r} or
      name.startswith({never!r} + ".") or name == {never!r}])
"""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert ran.stdout.splitlines() == ["TASK_STATE_COMPLETED", "False True []"], ran.stderr


# ── Apps, state and memory ────────────────────────────────────────────────────────────────────────────────────────────


async def test_next_turn_reads_session_events_of_all_adk_agents(dialect: str) -> None:
    """Check it in the same process, and in a new process that reads the stored session."""
    sessions = InMemorySessionService()
    model = scripted_model(["first"], ["second"])
    again = scripted_model(["third"], ["fourth"])

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


async def test_turn_reads_stored_adk_session_once(dialect: str) -> None:
    class CountingSessions(InMemorySessionService):
        found = 0

        async def get_session(self, **arguments: Any) -> Session | None:
            session = await super().get_session(**arguments)
            self.found += session is not None
            return session

    sessions = CountingSessions()
    model = scripted_model(["first"], ["second"])
    async with http(parts(served(LlmAgent(name="root", model=model), sessions)).app()) as client:
        first = await ask(client, dialect)
        sessions.found = 0
        await ask(client, dialect, "again", message_id="m-2", contextId=first["contextId"])
    assert sessions.found == 1
    assert texts(model.seen[1]) == ["user: hi", "model: first", "user: again"]


async def test_stored_adk_events_keep_author_and_branch() -> None:
    sessions = InMemorySessionService()
    root = ParallelAgent(name="both", sub_agents=[llm_agent(["a"], name="first"), llm_agent(["b"], name="second")])
    async with http(parts(served(root, sessions)).app()) as client:
        await ask(client, "SendMessage")
    (stored,) = [session for user in sessions.sessions["test"].values() for session in user.values()]
    said_by = {event.author: event.branch for event in stored.events if event.content and event.author != "user"}
    assert set(said_by) == {"first", "second"}
    assert all(branch and name in branch for name, branch in said_by.items())


class GreetingPlugin(BasePlugin):
    """Plugin with a prefix for every user message and a suffix for every event."""

    def __init__(self) -> None:
        super().__init__("greeting")

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> Any:
        return genai.Content(role="user", parts=[genai.Part(text="Please:"), *user_message.parts])

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> Event | None:
        if event.partial or not event.content or not event.content.parts or not event.content.parts[0].text:
            return None
        return event.model_copy(update={"content": content(genai.Part(text=f"{event.content.parts[0].text} Bye."))})


async def test_plugins_of_adk_app_are_called(dialect: str) -> None:
    """Serve an App with a plugin: ADK's own Runner calls the plugin for messages and events."""
    model = scripted_model(["Hello."])
    app = App(name="mine", root_agent=LlmAgent(name="root", model=model), plugins=[GreetingPlugin()])
    async with http(parts(served(app)).app()) as client:
        assert answer_text(await ask(client, dialect)) == "Hello. Bye."
    assert texts(model.seen[0]) == ["user: Please:", "user: hi"]
    assert [plugin.name for plugin in app.plugins] == ["greeting"]
    assert app.resumability_config is None


async def test_adk_loop_agent_ends_when_sub_agent_escalates(dialect: str) -> None:
    once = llm_agent(["again"], [call("exit_loop")], name="once", tools=[exit_loop])
    async with http(parts(served(LoopAgent(name="loop", sub_agents=[once], max_iterations=5))).app()) as client:
        task = await ask(client, dialect)
    assert (task["status"]["state"], answer_text(task)) == ("TASK_STATE_COMPLETED", "again")


async def test_next_turn_starts_with_adk_agent_that_answered_last(dialect: str) -> None:
    helper = llm_agent(["I help."], ["Still me."], name="helper", description="Helps.")
    root = llm_agent([call("transfer_to_agent", agent_name="helper")], sub_agents=[helper])
    async with http(parts(served(root)).app()) as client:
        first = await ask(client, dialect)
        second = await ask(client, dialect, "and?", message_id="m-2", contextId=first["contextId"])
    assert (answer_text(first), answer_text(second)) == ("I help.", "Still me.")


async def test_agent_configuration_fills_instruction_but_is_not_stored_in_session(dialect: str) -> None:
    """The instruction "Use {provider}" gets a value of the configuration; the stored session state stays empty."""
    sessions = InMemorySessionService()
    model = scripted_model(["Fine."], ["Fine."])
    root = LlmAgent(name="root", model=model, instruction="Use {provider}, in {tone}.")
    adk = served(root, sessions, configuration={"provider": "maps", "tone": {"of": ["voice"]}})
    async with http(parts(adk).app()) as client:
        await ask(client, dialect)
    assert "Use maps, in {'of': ['voice']}." in str(model.instructions[0])
    (stored,) = [session for user in sessions.sessions["test"].values() for session in user.values()]
    assert stored.state == {}


async def test_adk_memory_is_shared_between_contexts(dialect: str) -> None:
    """Find in a second context what the first one added to the memory service of the agent's module."""

    async def remember(callback_context: CallbackContext) -> None:
        await callback_context.add_session_to_memory()

    module = ModuleType("an_agents_module")
    module.__dict__["memory_service"] = memory = InMemoryMemoryService()
    model = scripted_model(
        ["Noted."], [call("load_memory", query="milk")], [lambda request: texts(request.contents)[-1]]
    )
    root = LlmAgent(name="root", model=model, tools=[load_memory], after_agent_callback=remember)
    async with http(parts(served(root, module=module)).app()) as client:
        await ask(client, dialect, "Buy milk.")
        found = await ask(client, dialect, "What was I to buy?", message_id="m-2")
    assert "Buy milk." in str(answer_text(found))
    assert (await memory.search_memory(app_name="test", user_id="somebody else", query="milk")).memories == []


async def test_turn_without_an_answer_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The warning tells the agent's author which event to yield."""
    silent = yielding_agent(text_event(state_delta={"done": True}))
    async with http(parts(served(silent)).app()) as client:
        task = await ask(client, "SendMessage")
    assert (task["status"]["state"], answer_text(task)) == ("TASK_STATE_COMPLETED", None)
    (record,) = [each for each in caplog.records if "without an answer" in each.getMessage()]
    assert (record.levelname, record.__dict__["task_id"]) == ("WARNING", task["id"])
    assert "Event with content" in record.getMessage()


async def test_agent_that_only_saves_artifact_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def save(callback_context: CallbackContext) -> None:
        await callback_context.save_artifact("notes.txt", genai.Part(text="one"))

    saving = yielding_agent()
    saving.after_agent_callback = save
    async with http(parts(served(saving)).app()) as client:
        task = await ask(client, "SendMessage")
    assert [artifact["name"] for artifact in task["artifacts"]] == ["notes.txt"]
    assert "without an answer" not in caplog.text


class FixedSummarizer(BaseEventsSummarizer):
    """Summarizer without a model."""

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event:
        times = [event.timestamp for event in events]
        summed = EventCompaction(
            start_timestamp=min(times),
            end_timestamp=max(times),
            compacted_content=content(genai.Part(text="SUMMED UP")),
        )
        return Event(author="user", invocation_id=Event.new_id(), actions=EventActions(compaction=summed))


async def test_adk_app_compacts_its_session_events(dialect: str) -> None:
    """Compact the events by a summarizer: the next turn's model receives the summary instead."""
    model = scripted_model(["One."], ["Two."])
    compaction = EventsCompactionConfig(summarizer=FixedSummarizer(), compaction_interval=1, overlap_size=0)
    app = App(name="mine", root_agent=LlmAgent(name="root", model=model), events_compaction_config=compaction)
    async with http(parts(served(app)).app()) as client:
        first = await ask(client, dialect)
        second = await ask(client, dialect, "and?", message_id="m-2", contextId=first["contextId"])
    assert (answer_text(first), answer_text(second)) == ("One.", "Two.")
    assert texts(model.seen[1]) == ["model: SUMMED UP", "user: and?"]
