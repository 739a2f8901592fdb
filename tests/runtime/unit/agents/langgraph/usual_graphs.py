"""Graphs and functional agents as people write them, with the expected answers. `docs/agents.md` lists them."""

import operator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, RetryPolicy, Send, StreamWriter, interrupt
from pydantic import BaseModel

from aion.langgraph import AionContext
from aion.langgraph.stream import emit_data, emit_message
from aion.shared.types import A2AInbox, A2AOutbox
from aion_core.agents.langgraph.resumption import TOO_MANY_STEPS
from aion_core.protocol.types import Message, Part, Role
from tests.runtime.golden.graphs import asks_for, in_a_row, side_by_side
from tests.runtime.unit.agents.langgraph.usual_agents import case, handoff_to, model, weather
from tests.runtime.unit.agents.usual_agents import PNG, UsualTurn

State = dict[str, Any]


# ── Graphs of several agents ──────────────────────────────────────────────────────────────────────────────────────────


@case("Supervisor", UsualTurn(answer="Rome it is.", before=("Rome is sunny.",)))
def supervisor() -> Any:
    """Return a graph with agents as nodes, as langgraph-supervisor builds it."""
    researcher = create_agent(model(["Rome is ", "sunny."]), [], name="researcher")
    boss = create_agent(
        model([asks_for("transfer_to_researcher", "{}")], ["Rome it is."]),
        [handoff_to("researcher")],
        name="supervisor",
    )
    graph = StateGraph(MessagesState)
    graph.add_node("supervisor", boss, destinations=("researcher",))
    graph.add_node("researcher", researcher)
    graph.add_edge(START, "supervisor")
    graph.add_edge("researcher", "supervisor")
    return graph


@case("Swarm", UsualTurn(answer="I am Bob."), UsualTurn(answer="Still Bob."))
def swarm() -> Any:
    """Return a graph of agents that hand the conversation over, as langgraph-swarm builds it."""

    class Swarm(MessagesState):
        active_agent: str

    graph = StateGraph(Swarm)
    graph.add_node(
        "alice",
        create_agent(model([asks_for("transfer_to_bob", "{}")]), [handoff_to("bob")], name="alice"),
        destinations=("bob",),
    )
    graph.add_node("bob", create_agent(model(["I am Bob."], ["Still Bob."]), [], name="bob"))
    graph.add_conditional_edges(START, lambda state: state.get("active_agent", "alice"), ["alice", "bob"])
    return graph


@case("Router with Command", UsualTurn(answer="Paid."))
def router() -> Any:
    def route(state: MessagesState) -> Command[Literal["billing", "support"]]:
        return Command(goto="billing")

    def billing(state: MessagesState) -> State:
        return {"messages": [AIMessage("Paid.")]}

    def support(state: MessagesState) -> State:
        return {"messages": [AIMessage("Help.")]}

    graph = StateGraph(MessagesState).add_node("route", route).add_node("billing", billing)
    return graph.add_node("support", support).add_edge(START, "route")


@case("Parallel branches", UsualTurn(answer="Take the train.", before=("By bus in two hours.", "By train in one.")))
def branches() -> Any:
    one, two = model(["By bus ", "in two hours."]), model(["By train ", "in one."])

    async def bus(state: State) -> State:
        await one.ainvoke(state["messages"])
        return {}

    async def train(state: State) -> State:
        await two.ainvoke(state["messages"])
        return {}

    def join(state: State) -> State:
        return {"messages": [AIMessage("Take the train.")]}

    return side_by_side(bus, train, join=join)


WRAPPED = UsualTurn(answer="Report: two pages.", before=("Let me look.", "Sunny.", "A draft."))


@case("Agent called in a node", WRAPPED)
def wrapped() -> Any:
    """The node returns a message of its own; the agent's words and answer are in no state."""
    agent = create_agent(model(["Let me ", "look.", asks_for("weather", '{"city": "Rome"}')], ["Sunny."]), [weather])
    writer = model(["A ", "draft."])

    async def research(state: State) -> State:
        await agent.ainvoke({"messages": [HumanMessage("Rome?")]})
        return {}

    async def report(state: State) -> State:
        await writer.ainvoke("Write.")
        return {"messages": [AIMessage("Report: two pages.")]}

    return in_a_row(research, report, state=MessagesState)


@case(
    "Agent called in a node that fails once and is retried",
    UsualTurn(answer="Done.", before=("Second try.",), streamed=("First try.",)),
)
def wrapped_and_retried() -> Any:
    agent = create_agent(model(["First try."], ["Second try."]), [])
    failures = [ConnectionError()]

    async def research(state: State) -> State:
        await agent.ainvoke({"messages": [HumanMessage("Rome?")]})
        if failures:
            raise failures.pop()
        return {"messages": [AIMessage("Done.")]}

    graph = StateGraph(MessagesState)
    graph.add_node("research", research, retry_policy=RetryPolicy(initial_interval=0.001))
    return graph.add_edge(START, "research")


@case(
    "Node that fails after another one",
    UsualTurn(state="FAILED", answer="ValueError: the agent could not finish this turn.", before=("A draft.",)),
)
def failing_later() -> Any:
    writer = model(["A ", "draft."])

    async def write(state: State) -> State:
        return {"messages": [await writer.ainvoke("Write.")]}

    def check(state: State) -> State:
        raise ValueError("the password is hunter2")

    return in_a_row(write, check, state=MessagesState)


@case("Chain of prompts", UsualTurn(sent=("cats",), answer="Better joke.", before=("Joke about cats.",)))
def chain() -> Any:
    class Chain(TypedDict):
        topic: str
        joke: str
        better: str

    first, second = model(["Joke about ", "cats."]), model(["Better ", "joke."])

    async def write(state: Chain) -> State:
        assert state["topic"] == "cats"
        return {"joke": (await first.ainvoke(state["topic"])).text}

    async def improve(state: Chain) -> State:
        return {"better": (await second.ainvoke(state["joke"])).text}

    return in_a_row(write, improve, state=Chain)


@case("Map and reduce with Send", UsualTurn(answer="ROME OSLO"))
def map_reduce() -> Any:
    class Cities(MessagesState):
        found: Annotated[list[str], operator.add]

    def shout(state: Any) -> State:
        return {"found": [state["city"].upper()]}

    def reduce(state: Cities) -> State:
        return {"messages": [AIMessage(" ".join(sorted(state["found"], reverse=True)))]}

    graph = StateGraph(Cities).add_node("shout", shout).add_node("reduce", reduce)
    graph.add_conditional_edges(
        START, lambda _: [Send("shout", {"city": city}) for city in ("Rome", "Oslo")], ["shout"]
    )
    return graph.add_edge("shout", "reduce")


@case("Subgraph with another state schema", UsualTurn(answer="sunny in Rome"))
def subgraph() -> Any:
    class Inner(TypedDict):
        city: str
        forecast: str

    def look(state: Inner) -> State:
        return {"forecast": f"sunny in {state['city']}"}

    inner: Any = StateGraph(Inner).add_node("look", look).add_edge(START, "look").compile()

    def forecast(state: MessagesState) -> State:
        return {"messages": [AIMessage(inner.invoke({"city": "Rome"})["forecast"])]}

    return StateGraph(MessagesState).add_node("forecast", forecast).add_edge(START, "forecast")


# ── State and output ──────────────────────────────────────────────────────────────────────────────────────────────────


@case("State without messages", UsualTurn(answer="", parts=({"answer": ""},)))
def custom_state() -> Any:
    class Question(TypedDict):
        question: str

    class Answered(Question):
        answer: str

    def answer(state: Answered) -> State:
        return {"answer": f"{state['question']} Forty-two."}

    return StateGraph(Answered, input_schema=Question).add_node("answer", answer).add_edge(START, "answer")


@case(
    "State filled by data",
    UsualTurn(sent=({"data": {"city": "Rome", "days": 2}},), answer="", parts=({"plan": ""},)),
)
def data_state() -> Any:
    class Trip(TypedDict):
        city: str
        days: int
        plan: str

    def plan(state: Trip) -> State:
        return {"plan": " ".join([state["city"]] * state["days"])}

    return StateGraph(Trip).add_node("plan", plan).add_edge(START, "plan")


@case("output_schema", UsualTurn(answer="", parts=({"score": 0},)))
def output_schema() -> Any:
    class Output(TypedDict):
        score: int

    class Scored(MessagesState):
        score: int
        notes: str

    def score(state: Scored) -> State:
        return {"score": 7, "notes": "internal"}

    return StateGraph(Scored, output_schema=Output).add_node("score", score).add_edge(START, "score")


@case("Result beside messages", UsualTurn(answer="", parts=({"result": ""},)))
def result_beside_messages() -> Any:
    class WithResult(MessagesState):
        result: dict[str, int]

    def work(state: WithResult) -> State:
        return {"result": {"total": 3}}

    return StateGraph(WithResult).add_node("work", work).add_edge(START, "work")


@case("Structured output of a subgraph", UsualTurn(answer="", parts=({"celsius": 21},)))
def nested_structured() -> Any:
    class Inner(MessagesState):
        structured_response: dict[str, int]

    def inner(state: Inner) -> State:
        return {"structured_response": {"celsius": 21}}

    nested = StateGraph(Inner).add_node("inner", inner).add_edge(START, "inner").compile()
    return StateGraph(MessagesState).add_node("weather", nested).add_edge(START, "weather")


@case("Turn without output", UsualTurn())
def silent() -> Any:
    def work(state: MessagesState) -> State:
        return {}

    return StateGraph(MessagesState).add_node("work", work).add_edge(START, "work")


@case("Several messages of a node", UsualTurn(answer="At 14:00.", before=("There is one train.",)))
def several_messages() -> Any:
    def train(state: MessagesState) -> State:
        return {"messages": [AIMessage("There is one train."), AIMessage("At 14:00.")]}

    return StateGraph(MessagesState).add_node("train", train).add_edge(START, "train")


@case("Graph that never ends", UsualTurn(state="FAILED", answer=TOO_MANY_STEPS))
def endless() -> Any:
    def again(state: MessagesState) -> Command[Literal["again"]]:
        return Command(goto="again")

    graph = StateGraph(MessagesState).add_node("again", again).add_edge(START, "again")
    return graph.compile().with_config(recursion_limit=5)


@case("pydantic state", UsualTurn(answer="Hi yourself"))
def pydantic_state() -> Any:
    class Talk(BaseModel):
        messages: Annotated[list[AnyMessage], add_messages] = []

    def answer(state: Talk) -> State:
        return {"messages": [AIMessage(f"{state.messages[-1].text} yourself")]}

    return StateGraph(Talk).add_node("answer", answer).add_edge(START, "answer")


@case("emit functions", UsualTurn(answer="Here it is.", before=("Looking.",), artifacts={"rows": ""}))
def emitting() -> Any:
    def report(state: MessagesState, writer: StreamWriter) -> State:
        emit_message(writer, AIMessage("Looking."))
        emit_data(writer, {"rows": [1, 2]}, name="rows")
        return {"messages": [AIMessage("Here it is.")]}

    return StateGraph(MessagesState).add_node("report", report).add_edge(START, "report")


@case("thread.reply", UsualTurn(answer="One moment."))
def replying() -> Any:
    async def answer(state: MessagesState, runtime: Runtime[AionContext]) -> State:
        async def words() -> Any:
            for word in ("One ", "moment."):
                yield word

        await runtime.context.thread.reply(words())
        return {}

    return StateGraph(MessagesState, context_schema=AionContext).add_node("answer", answer).add_edge(START, "answer")


@case("a2a_inbox and a2a_outbox", UsualTurn(sent=("See ", {"raw": PNG, "mediaType": "image/png"}), answer="2 parts"))
def envelopes() -> Any:
    class Envelope(MessagesState):
        a2a_inbox: A2AInbox | None
        a2a_outbox: A2AOutbox | None

    def answer(state: Envelope) -> State:
        assert state["a2a_inbox"] is not None
        text = f"{len(state['a2a_inbox'].message.parts)} parts"
        return {"a2a_outbox": A2AOutbox(message=Message(role=Role.ROLE_AGENT, parts=[Part(text=text)]))}

    return StateGraph(Envelope).add_node("answer", answer).add_edge(START, "answer")


@case(
    "Conversation",
    UsualTurn(answer="1 so far"),
    UsualTurn(answer="2 so far"),
    UsualTurn(answer="1 so far", new_context=True),
)
def conversation() -> Any:
    def count(state: MessagesState) -> State:
        humans = sum(message.type == "human" for message in state["messages"])
        return {"messages": [AIMessage(f"{humans} so far")]}

    return StateGraph(MessagesState).add_node("count", count).add_edge(START, "count")


@case("Long-term memory", UsualTurn(answer="0 notes"), UsualTurn(answer="1 notes", new_context=True))
def remembering() -> Any:
    async def note(state: MessagesState, *, store: BaseStore) -> State:
        known = await store.asearch(("notes",))
        await store.aput(("notes",), str(len(known)), {"text": state["messages"][-1].text})
        return {"messages": [AIMessage(f"{len(known)} notes")]}

    return StateGraph(MessagesState).add_node("note", note).add_edge(START, "note").compile(store=InMemoryStore())


# ── Graphs with questions ─────────────────────────────────────────────────────────────────────────────────────────────


@case(
    "interrupt",
    UsualTurn(state="INPUT_REQUIRED", answer="Which day?", parts=({"options": []},)),
    UsualTurn(sent=("Monday",), answer="Booked for Monday."),
)
def booking() -> Any:
    def book(state: State) -> State:
        day = interrupt({"prompt": "Which day?", "options": ["Monday", "Tuesday"]})
        return {"messages": [AIMessage(f"Booked for {day}.")]}

    return in_a_row(book)


@case(
    "Several interrupts",
    UsualTurn(state="INPUT_REQUIRED", answer="Which day?Which seat?"),
    UsualTurn(each="any", answer="any, any"),
)
def several_interrupts() -> Any:
    class Booking(MessagesState):
        wanted: Annotated[list[str], operator.add]

    def day(state: Booking) -> State:
        return {"wanted": [interrupt("Which day?")]}

    def seat(state: Booking) -> State:
        return {"wanted": [interrupt("Which seat?")]}

    def book(state: Booking) -> State:
        return {"messages": [AIMessage(", ".join(state["wanted"]))]}

    return side_by_side(day, seat, join=book, state=Booking)


@case(
    "Agent Inbox",
    UsualTurn(
        state="INPUT_REQUIRED",
        answer='Send it?\nsend_mail(to="ada")\nAnswer accept or ignore.',
        parts=({"action_request": {}},),
    ),
    UsualTurn(sent=("yes",), answer="accept"),
)
def agent_inbox() -> Any:
    def send_mail(state: State) -> State:
        request = {
            "action_request": {"action": "send_mail", "args": {"to": "ada"}},
            "config": {"allow_accept": True, "allow_edit": False, "allow_respond": False, "allow_ignore": True},
            "description": "Send it?",
        }
        return {"messages": [AIMessage(interrupt([request])[0]["type"])]}

    return in_a_row(send_mail)


# ── Functional API ────────────────────────────────────────────────────────────────────────────────────────────────────


@case("@entrypoint", UsualTurn(answer="Hi yourself"))
def functional() -> Any:
    @task
    async def answer(text: str) -> str:
        return f"{text} yourself"

    @entrypoint()
    async def agent(given: State) -> str:
        return str(await answer(given["messages"][-1].text))

    return agent


@case("@entrypoint with a model's message", UsualTurn(answer="Hello there."))
def functional_model() -> Any:
    speaking = model(["Hello ", "there."])

    @entrypoint()
    async def agent(given: State) -> Any:
        return await speaking.ainvoke(given["messages"])

    return agent


@dataclass
class Weather:
    """Result of a functional agent."""

    city: str
    degrees: int


@case("@entrypoint with an object", UsualTurn(answer="", parts=({"city": ""},)))
def functional_object() -> Any:
    @entrypoint()
    async def agent(given: State) -> Weather:
        return Weather("Rome", 21)

    return agent


@case("@entrypoint with a dict", UsualTurn(answer="", parts=({"rows": []},)))
def functional_dict() -> Any:
    @entrypoint()
    async def agent(given: State) -> State:
        return {"rows": [1, 2]}

    return agent


@case(
    "@entrypoint that asks",
    UsualTurn(state="INPUT_REQUIRED", answer="Which day?"),
    UsualTurn(sent=("Monday",), answer="Booked for Monday."),
)
def functional_asking() -> Any:
    @entrypoint()
    async def agent(given: State) -> str:
        return f"Booked for {interrupt('Which day?')}."

    return agent
