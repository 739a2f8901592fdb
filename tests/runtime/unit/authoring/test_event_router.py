"""`create_event_router` calls the handler for the event's kind, with the parameters that the handler declares."""

import functools
import threading
from typing import Any, Optional, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, StreamWriter, interrupt

from aion.langgraph import AgentIdentity, AionContext, Event, Message, Thread, create_event_router
from aion.shared.types import A2AInbox
from aion_core.authoring.context import aion_context_set
from aion_core.protocol.aion.extensions import EventKind
from tests.runtime.unit.authoring.recording_sink import RecordingSink, a_turn


class RouterState(TypedDict, total=False):
    said: str


async def routed(kind: EventKind, sink: RecordingSink | None = None, **handlers: Any) -> dict[str, Any]:
    graph = StateGraph(RouterState, context_schema=AionContext)
    graph.add_node("router", create_event_router(**handlers))
    graph.add_edge(START, "router")
    compiled = graph.compile(store=InMemoryStore())
    return await compiled.ainvoke({"said": "before"}, context=a_turn(sink or RecordingSink(), "hello", kind))


async def test_event_without_handler_goes_to_default_handler() -> None:
    def on_message() -> dict[str, str]:
        return {"said": "message"}

    assert await routed("reaction", on_message=on_message) == {"said": "before"}
    assert await routed("reaction", on_message=on_message, default=lambda: {"said": "default"}) == {"said": "default"}
    later: Any = "of a later version"
    assert await routed(later, on_message=on_message) == {"said": "before"}
    assert await routed("message") == {"said": "before"}


async def test_event_handler_receives_every_parameter_it_declares() -> None:
    given: dict[str, Any] = {}

    async def on_message(
        self: AgentIdentity,
        message: Message,
        thread: Thread,
        inbox: A2AInbox,
        event: Event,
        context: AionContext,
        state: RouterState,
        runtime: Runtime[AionContext],
        config: RunnableConfig,
        writer: StreamWriter,
        identity: AgentIdentity,
        store: Optional[BaseStore] = None,  # noqa: UP045  # as an author may write it
        own: int = 7,
    ) -> dict[str, str]:
        given.update(locals())
        return {"said": f"{message.text} by {self.name}"}

    assert await routed("message", on_message=on_message) == {"said": "hello by Ada"}
    context = given["context"]
    assert isinstance(context, AionContext)
    assert given["runtime"].context is context
    assert (given["message"], given["thread"], given["inbox"], given["event"], given["self"], given["identity"]) == (
        context.message,
        context.thread,
        context.inbox,
        context.event,
        context.self,
        context.self,
    )
    assert given["state"] == {"said": "before"}
    assert "configurable" in given["config"]
    assert callable(given["writer"])
    assert isinstance(given["store"], InMemoryStore)
    assert given["own"] == 7


async def test_only_synchronous_event_handlers_run_in_threads() -> None:
    def on_message(context: AionContext) -> dict[str, str]:
        return {"said": threading.current_thread().name}

    async def on_command() -> dict[str, str]:
        return {"said": threading.current_thread().name}

    assert (await routed("message", on_message=on_message))["said"] != threading.current_thread().name
    assert (await routed("command", on_command=on_command))["said"] == threading.current_thread().name


async def test_event_handler_may_be_any_callable() -> None:
    class Handlers:
        async def on_message(self, message: Message) -> dict[str, str]:
            return {"said": message.text}

        async def __call__(self, thread: Thread) -> None:
            await thread.reply("called")

    async def on_reaction(word: str, thread: Thread) -> None:
        await thread.reply(word)

    sink = RecordingSink()
    assert await routed("message", on_message=Handlers().on_message) == {"said": "hello"}
    assert await routed("command", sink, on_command=Handlers()) == {"said": "before"}
    await routed("reaction", sink, on_reaction=functools.partial(on_reaction, "partial"))
    await routed("card_action", sink, on_card_action=lambda thread: thread.reply("lambda"))
    assert sink.texts == ["called", "partial", "lambda"]


async def test_synchronous_event_handler_may_interrupt_for_input() -> None:
    """Call `interrupt` in a `def` handler, which runs in a thread: it returns the client's answer."""
    graph = StateGraph(RouterState, context_schema=AionContext)
    graph.add_node("router", create_event_router(on_message=lambda: {"said": interrupt("Which one?")}))
    graph.add_edge(START, "router")
    compiled = graph.compile(checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "t-1"}}
    asked = await compiled.ainvoke({}, config, context=a_turn(RecordingSink()))
    assert asked["__interrupt__"][0].value == "Which one?"
    answered = await compiled.ainvoke(Command(resume="this one"), config, context=a_turn(RecordingSink()))
    assert answered == {"said": "this one"}


async def test_event_router_works_in_graph_with_custom_context_schema() -> None:
    """The graph's runtime has another context, so the router reads the AionContext from a context variable."""

    class OwnEvent(TypedDict):
        tenant: str

    async def on_command(context: AionContext, runtime: Runtime[OwnEvent]) -> dict[str, str]:
        return {"said": f"{context.event.kind} of {runtime.context['tenant']}"}

    graph = StateGraph(RouterState, context_schema=OwnEvent)
    graph.add_node("router", create_event_router(on_command=on_command))
    graph.add_edge(START, "router")
    compiled = graph.compile()
    with aion_context_set(a_turn(RecordingSink(), kind="command")):
        assert await compiled.ainvoke({}, context={"tenant": "acme"}) == {"said": "command of acme"}
    with pytest.raises(RuntimeError, match="No turn is running"):
        await compiled.ainvoke({}, context={"tenant": "acme"})


def test_handler_with_unknown_parameter_is_refused() -> None:
    def on_message(mesage: Message) -> None: ...

    def on_command(state: RouterState, /) -> None: ...

    with pytest.raises(TypeError, match=r"'on_message' requires 'mesage'.* state, runtime, context, .*\.$"):
        create_event_router(on_message=on_message)
    with pytest.raises(TypeError, match="'state'"):
        create_event_router(on_command=on_command)
    with pytest.raises(TypeError, match="'other'"):
        create_event_router(default=lambda other: {})
