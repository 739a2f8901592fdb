"""Agents for the console's tests: an ADK agent, an agent with a tool, and agents that ask questions, request a token, or return files or hostile markup."""

from tests.support.agents.session_counting import ADK
from tests.support.e2e.talking import AGENT

ASKING = """
from enum import Enum

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send, interrupt
from pydantic import BaseModel, Field


class Meal(str, Enum):
    LUNCH = "lunch"
    DINNER = "dinner"


class Booking(BaseModel):
    seats: int = Field(ge=1, le=8, title="Seats")
    meal: Meal
    outdoors: bool = False
    guests: list[str] | None = Field(None, description="Names of the guests")
    note: str = ""


def book(state: MessagesState) -> dict:
    if "both" in state["messages"][-1].text:
        return {}
    booking = interrupt("How many seats, and when?", response_schema=Booking)
    booking = Booking.model_validate(booking)
    text = f"{booking.seats} seats, {booking.meal.value}, {booking.outdoors}, {booking.guests}"
    return {"messages": [AIMessage(text)]}


def ask(state: dict) -> dict:
    return {"messages": [AIMessage(f"{state['about']}: {interrupt({'prompt': state['about'] + '?', 'options': ['yes', 'no']})}.")]}


def routes(state: MessagesState):
    both = "both" in state["messages"][-1].text
    return [Send("ask", {"about": about}) for about in ("Red", "Blue")] if both else []


builder = StateGraph(MessagesState).add_node("book", book).add_node("ask", ask)
graph = builder.add_edge(START, "book").add_conditional_edges("book", routes, ["ask"])
"""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

SHOWING = f'''
from base64 import b64encode

from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph

from aion.langgraph.stream import emit_data, emit_file

PIXEL = "{PIXEL}"
SVG = b64encode(b'<svg xmlns="http://www.w3.org/2000/svg"><script>document.title="run"</script></svg>').decode()
PAGE = b64encode(b"<script>parent.document.title='run'</script>").decode()
HOSTILE = """<script>document.title = "run"</script>
<img src=x onerror="document.title='run'"><svg onload="document.title='run'"></svg>
<iframe srcdoc="<script>parent.document.title='run'</script>"></iframe><style>body {{{{ display: none }}}}</style>

[link](javascript:document.title='run') [data](data:text/html,<script>1</script>) ![image](javascript:document.title='run')
[site](https://example.com/"onmouseover="document.title='run') `<b>code</b>` **<i>bold</i>**

| <b>a</b> | b |
| --- | --- |
| <img src=x onerror="document.title='run'"> | [x](vbscript:run) |

```html
<script>document.title = "run"</script>
```
"""
TABLE = """# Prices

| Fruit | Price |
| --- | --- |
| Apple | **2** |

> A quote

1. first
2. second
"""


def show(state: MessagesState) -> dict:
    writer, text = get_stream_writer(), state["messages"][-1].text
    if text == "hostile":
        emit_data(writer, {{"<b>key</b>": "<script>document.title='run'</script>"}}, name="<b>data</b>")
        emit_file(writer, base64=SVG, mime_type="image/svg+xml", name="<img src=x onerror=alert(1)>.svg")
        emit_file(writer, base64=PAGE, mime_type="text/html", name="page.html")
        emit_file(writer, url="javascript:document.title='run'", mime_type="text/plain", name="script")
        emit_file(writer, base64=PIXEL, mime_type='image/png" onload="document.title=1', name="type")
        return {{"messages": [AIMessage(HOSTILE)]}}
    if text == "files":
        emit_file(writer, base64=PIXEL, mime_type="image/png", name="dot.png")
        emit_file(writer, base64=PIXEL, mime_type="IMAGE/JPG; q=1", name="dot.jpg")
        for place, rows in enumerate(("naïve,1;", "two,2")):
            emit_file(writer, base64=b64encode(rows.encode()).decode(), mime_type="text/csv", name="rows.csv", append=place > 0)
        emit_file(writer, base64=b64encode(b"RIFF").decode(), mime_type="audio/wav", name="tone.wav")
        emit_file(writer, base64=b64encode(b"%PDF-1.4").decode(), mime_type="application/pdf", name="paper.pdf")
        emit_file(writer, url="https://example.com/film.mp4", mime_type="video/mp4", name="film.mp4")
    return {{"messages": [AIMessage(TABLE)]}}


graph = StateGraph(MessagesState).add_node("show", show).add_edge(START, "show")
'''

SIGNING = """
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater
from a2a.types import Part


class Signing(AgentExecutor):
    async def execute(self, context, event_queue):
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if "token" in context.get_user_input():
            await updater.complete(updater.new_agent_message([Part(text="Signed in.")]))
        else:
            await updater.requires_auth(updater.new_agent_message([Part(text="Which token?")]))

    async def cancel(self, context, event_queue):
        pass


executor = Signing()
"""

WORKING = """
import asyncio
from datetime import timedelta
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from aion.shared.sleeping import sleep


@tool
async def weather(city: str) -> str:
    "Return the weather of a city."
    while "gate" in city and not Path(__file__).with_name(city.split()[-1]).exists():
        await asyncio.sleep(0.02)
    return f"sunny in {city}"


class Scripted(BaseChatModel):
    @property
    def _llm_type(self):
        return "scripted"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        last = messages[-1]
        calls = [] if last.type == "tool" else [{"name": "weather", "args": {"city": last.text}, "id": "call"}]
        usage = {"input_tokens": 12, "output_tokens": 7, "total_tokens": 19}
        answer = AIMessage("" if calls else f"It is {last.text}.", tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=answer)])


async def agent(state: MessagesState) -> dict:
    if "sleep" in state["messages"][-1].text:
        await sleep(timedelta(seconds=8))
        return {"messages": [AIMessage("Awake.")]}
    if "fail" in state["messages"][-1].text:
        raise ValueError("the database said no")
    return {"messages": [await Scripted().ainvoke(state["messages"])]}


builder = StateGraph(MessagesState).add_node("agent", agent).add_node("tools", ToolNode([weather]))
graph = builder.add_edge(START, "agent").add_conditional_edges("agent", tools_condition).add_edge("tools", "agent")
"""

NESTED = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


def half(side):
    say = lambda state: {"messages": [AIMessage(f"Said by {side}.")]}
    return StateGraph(MessagesState).add_node("say", say).add_edge(START, "say").compile()


builder = StateGraph(MessagesState).add_node("left", half("left")).add_node("right", half("right"))
graph = builder.add_conditional_edges(START, lambda state: state["messages"][-1].text, ["left", "right"])
"""

ORDERING = """
from pydantic import BaseModel

from langgraph.graph import START, StateGraph


class Order(BaseModel):
    number: int
    outcome: str = ""


graph = StateGraph(Order).add_node("order", lambda order: {"outcome": f"Ordered {order.number}."}).add_edge(START, "order")
"""

CONFIG = """
aion:
  agents:
    talk: {path: "agent.py:graph", name: Talk}
    counting: {path: "counting.py:root_agent", name: Counting}
    asking:
      path: "asking.py:graph"
      name: Asking
      description: Books a table, and asks for the details.
      skills: [{id: book, name: Book, description: Books a table., tags: [tables], examples: [Book a table for four]}]
    showing: {path: "showing.py:graph", name: Showing}
    signing: {path: "signing.py:executor", name: Signing}
    ordering: {path: "ordering.py:graph", name: Ordering}
    working: {path: "working.py:graph", name: Working}
    strict: {path: "nested.py:graph", name: Strict, capabilities: {extensions: [{uri: "https://x.y/z", required: true}]}}
"""

FILES = {
    "agent.py": AGENT,
    "counting.py": ADK,
    "asking.py": ASKING,
    "showing.py": SHOWING,
    "signing.py": SIGNING,
    "ordering.py": ORDERING,
    "working.py": WORKING,
    "nested.py": NESTED,
    "aion.yaml": CONFIG,
}
