"""Trip planner: it asks for dates with a form, looks things up with tools, draws a map, and writes the itinerary as a file.

MODEL names a real model, such as openai:gpt-5-mini. Without it a scripted model needs no key and no network.
"""

import os
from base64 import b64encode
from datetime import date
from typing import Annotated, Any, Literal

from cities import CITIES, City
from langchain_core.messages import SystemMessage
from langchain_core.tools import ToolException, tool
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt
from pydantic import BaseModel, Field
from route_map import route_map
from scripted_planner import ScriptedPlanner

from aion.langgraph.stream import emit_file

PROMPT = """You plan city trips. Ask with ask_dates if you don't know the dates. Take weather, sights and prices from the tools, never
from memory. Answer in Markdown: a plan and costs as tables, a packing list as a task list (`- [ ] …`). Add a map with draw_map to a plan."""


class Stay(BaseModel):
    """Answer to the question for dates. Clients show its fields as a form, and an answer that does not fit is asked again."""

    arrival: date = Field(title="Day of arrival")
    nights: int = Field(title="Nights", ge=1, le=7)
    travellers: int = Field(2, title="Travellers", ge=1, le=8)
    pace: Literal["relaxed", "full"] = Field("relaxed", title="Pace", description="How much fits into a day.")


@tool
def ask_dates(city: str) -> dict[str, Any]:
    """Ask the traveller when they arrive, for how many nights, and how many they are."""
    # The turn ends here. It resumes with the answer, perhaps days later and in another process.
    stay = interrupt({"prompt": f"When are you going to {find(city).name}?"}, response_schema=Stay)
    return stay.model_dump(mode="json")


@tool
def weather(city: str, month: Annotated[int, Field(ge=1, le=12)]) -> dict[str, int]:
    """Return the usual highest temperature of a day in °C, and the number of rainy days, in a month."""
    found = find(city)
    return {"high": found.highs[month - 1], "rainy_days": found.rainy_days[month - 1]}


@tool
def sights(city: str) -> list[dict[str, Any]]:
    """Return the city's best sights, in the order of a good walk: name, price of a ticket in EUR, and what to see."""
    return [{"name": each.name, "eur": each.eur, "see": each.see} for each in find(city).sights]


@tool
def prices(city: str, nights: int, travellers: int) -> dict[str, int]:
    """Return what a stay costs in EUR, for all travellers together, by kind. Two travellers share a room."""
    found, rooms = find(city), -(-travellers // 2)
    return {
        "Hotel": found.room * rooms * nights,
        "Food": found.food * travellers * (nights + 1),
        "Local transport": found.transport * travellers * (nights + 1),
        "Tickets": sum(each.eur for each in found.sights) * travellers,
    }


@tool
def draw_map(city: str, stops: list[str]) -> str:
    """Draw a map with the sights in the order of the stops, and show it to the traveller."""
    found = find(city)
    places = {each.name: (each.x, each.y) for each in found.sights}
    send_file(
        f"{city.lower()}-map.png",
        "image/png",
        route_map(found.water, [places[each] for each in stops if each in places]),
    )
    return "The map is shown."


@tool
def write_itinerary(city: str, markdown: str) -> str:
    """Give the traveller the itinerary as a Markdown file."""
    send_file(f"{city.lower()}-itinerary.md", "text/markdown", markdown.encode())
    return "The file is sent."


def find(city: str) -> City:
    """Return the city. Raises ToolException, which the model can read, for a city without data."""
    if city.lower() not in CITIES:
        raise ToolException(
            f"There is no data for {city}, only for {', '.join(each.name for each in CITIES.values())}."
        )
    return CITIES[city.lower()]


def send_file(name: str, media_type: str, content: bytes) -> None:
    """Send the client a file as an artifact of the task."""
    emit_file(get_stream_writer(), base64=b64encode(content).decode(), mime_type=media_type, name=name)


TOOLS = [ask_dates, weather, sights, prices, draw_map, write_itinerary]
for each in TOOLS:
    each.handle_tool_error = True


def chosen_model() -> Any:
    """Return the model that MODEL names, or the scripted one."""
    if name := os.environ.get("MODEL"):
        from langchain.chat_models import init_chat_model

        return init_chat_model(name)
    return ScriptedPlanner()


model = chosen_model().bind_tools(TOOLS)


async def planner(state: MessagesState) -> dict[str, Any]:
    """Let the model answer, or call tools."""
    return {"messages": [await model.ainvoke([SystemMessage(PROMPT), *state["messages"]])]}


graph = (
    StateGraph(MessagesState)
    .add_node("planner", planner)
    .add_node("tools", ToolNode(TOOLS))
    .add_edge(START, "planner")
    .add_conditional_edges("planner", tools_condition)
    .add_edge("tools", "planner")
)
