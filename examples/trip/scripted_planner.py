"""Scripted chat model in place of a real model: it reads the request, calls the tools that it needs, and answers at a human pace."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

from cities import CITIES
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

MONTHS = [date(2000, month, 1).strftime("%B") for month in range(1, 13)]
NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "a weekend": 2, "a week": 7}
NUMBER = rf"(\d+|{'|'.join(NUMBERS)})"

INTENTS = {
    "packing": r"\b(pack\w*|bring|wear|luggage|suitcase)\b",
    "costs": r"\b(costs?|prices?|budget|expensive|cheap|how much|euros?|eur)\b",
    "file": r"\b(itinerary|file|save|download|print)\b",
    "map": r"\b(map|picture|draw|route)\b",
    "weather": r"\b(weather|warm|cold|rain\w*|temperature)\b",
    "plan": r"\b(plan\w*|trip|visit|travel|go(ing)?|days?|nights?|weekend|week|what to (do|see))\b",
}
"""Wishes and the patterns of messages with them. The first pattern that fits decides."""

TOOLS = {
    "packing": ["ask_dates", "weather"],
    "costs": ["ask_dates", "prices"],
    "file": ["ask_dates", "sights", "write_itinerary"],
    "map": ["sights", "draw_map"],
    "weather": ["ask_dates", "weather"],
    "plan": ["ask_dates", "weather", "sights", "draw_map"],
}
"""Tools that each intent needs, in their order."""


@dataclass(frozen=True)
class Trip:
    """Facts of the conversation: the city, the dates and the travellers, as far as they are known."""

    city: str = ""
    arrival: date = date.min
    nights: int = 0
    travellers: int = 2

    @property
    def is_dated(self) -> bool:
        """True if the dates are known."""
        return self.arrival > date.min and self.nights > 0


class ScriptedPlanner(BaseChatModel):
    """Chat model that plans trips to a few cities. It streams its answers word by word."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "ScriptedPlanner":
        """Accept the agent's tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=next_message(messages))])

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        message, pause = next_message(messages), float(os.environ.get("TRIP_SECONDS_PER_WORD", "0.04"))
        await asyncio.sleep(8 * pause)
        words = re.findall(r"\s*\S+", message.text)
        for word in words:
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
            await asyncio.sleep(pause)
        read, said = sum(len(each.text.split()) for each in messages), len(words) or 12
        usage = UsageMetadata(input_tokens=read, output_tokens=said, total_tokens=read + said)
        yield ChatGenerationChunk(
            message=AIMessageChunk(content="", tool_calls=message.tool_calls, usage_metadata=usage)
        )


def next_message(messages: list[BaseMessage]) -> AIMessage:
    """Return the call of the next tool, or the answer once the tools have returned."""
    asked = max(place for place, message in enumerate(messages) if message.type == "human")
    trip = trip_in(messages)
    intent = intent_of(messages[asked].text)
    if not intent and trip != trip_in(messages[:asked]):
        # The message only completes an earlier one: "What should I pack?", "Kyoto".
        said = [message.text for message in messages[:asked] if message.type == "human"]
        intent = next(filter(None, map(intent_of, reversed(said))), "plan")
    if not intent or not trip.city:
        return AIMessage(greeting(asks=bool(intent)))
    results = {str(message.name): message for message in messages[asked:] if isinstance(message, ToolMessage)}
    for name in TOOLS[intent]:
        if name not in results and not (name == "ask_dates" and trip.is_dated):
            found = json.loads(results["sights"].text) if "sights" in results else []
            call = {"name": name, "args": arguments(name, trip, found), "id": f"call-{len(messages)}"}
            return AIMessage("", tool_calls=[call])
        if name in results and results[name].status == "error":
            return AIMessage(f"That did not work: {results[name].text}")
    return AIMessage(answer(intent, trip, {name: each.text for name, each in results.items()}))


def intent_of(text: str) -> str:
    """Return what the message asks for, a key of INTENTS; "" if it is something else."""
    return next((each for each, pattern in INTENTS.items() if re.search(pattern, text, re.IGNORECASE)), "")


def trip_in(messages: list[BaseMessage]) -> Trip:
    """Return what the messages say about the trip; a later message wins, and another city needs its own dates."""
    trip = Trip()
    for message in messages:
        if isinstance(message, ToolMessage) and message.name == "ask_dates" and message.status != "error":
            stay = json.loads(message.text)
            arrival = date.fromisoformat(stay["arrival"])
            trip = replace(trip, arrival=arrival, nights=stay["nights"], travellers=stay["travellers"])
        elif message.type == "human":
            trip = heard(trip, message.text)
    return trip


def heard(trip: Trip, text: str) -> Trip:
    """Return the trip with the city, the dates and the travellers that the text names."""
    city = next((each.name for each in CITIES.values() if each.name.lower() in text.lower()), trip.city)
    trip = replace(trip, city=city) if trip.city in ("", city) else Trip(city)
    with suppress(ValueError):  # such as 31 June: ask_dates asks then
        if found := re.search(r"\d{4}-\d\d-\d\d", text):
            trip = replace(trip, arrival=date.fromisoformat(found[0]))
        elif found := re.search(rf"(?:(\d\d?)\.? )?\b({'|'.join(MONTHS)})\b", text):
            today, month, day = date.today(), MONTHS.index(found[2]) + 1, int(found[1] or 1)
            trip = replace(trip, arrival=date(today.year + ((month, day) <= (today.month, today.day)), month, day))
    if found := re.search(rf"{NUMBER}[ -](nights?|days?)|(a weekend|a week)\b", text, re.IGNORECASE):
        count = found[1] or found[3]
        trip = replace(trip, nights=min(7, number(count) - (found[2] or "").lower().startswith("day") or 1))
        if trip.arrival > date.min and count.lower() == "a weekend":
            trip = replace(trip, arrival=trip.arrival + timedelta(days=(4 - trip.arrival.weekday()) % 7))
    if found := re.search(
        rf"\bfor {NUMBER}\b(?! (night|day))|{NUMBER} (people|persons|travellers|of us)|\b(alone|myself)\b",
        text,
        re.IGNORECASE,
    ):
        trip = replace(trip, travellers=number(found[1] or found[3] or "one"))
    return trip


def number(text: str) -> int:
    """Return the number of a word or of digits."""
    return NUMBERS.get(text.lower()) or int(text)


def arguments(tool: str, trip: Trip, sights: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the arguments for a call of the tool."""
    more: dict[str, dict[str, Any]] = {
        "weather": {"month": trip.arrival.month},
        "prices": {"nights": trip.nights, "travellers": trip.travellers},
        "draw_map": {"stops": [each["name"] for each in sights]},
        "write_itinerary": {"markdown": f"# {trip.city}\n\n{plan(trip, sights)}\n" if sights else ""},
    }
    return {"city": trip.city, **more.get(tool, {})}


def answer(intent: str, trip: Trip, results: dict[str, str]) -> str:
    """Return the answer from the results of the tools."""
    found = {name: json.loads(text) for name, text in results.items() if text[:1] in "[{"}
    if intent == "costs":
        return costs(trip, found["prices"])
    if intent == "packing":
        return packing(trip, found["weather"])
    if intent == "weather":
        return f"{climate(trip, found['weather'])} Shall I write a packing list?"
    if intent == "map":
        listed = "\n".join(
            f"{place}. **{each['name']}**: {each['see']}" for place, each in enumerate(found["sights"], start=1)
        )
        return f"Here is {trip.city} as one walk:\n\n{listed}"
    if intent == "file":
        return f"Your itinerary for {trip.city} is in the file. Print it, or put it on your phone: it needs no network."
    return (
        f"### {trip.city}, {span(trip)}\n\n{climate(trip, found['weather'])} The map shows the walk in the order of the days.\n\n"
        f"{plan(trip, found['sights'])}\n\nShall I work out the **costs**, write a **packing list**, or give you the **itinerary** as a file?"
    )


def plan(trip: Trip, sights: list[dict[str, Any]]) -> str:
    """Return the days of the trip as a table."""
    rows = ["| Day | See | Because of | Ticket |", "| --- | --- | --- | ---: |"]
    days = min(trip.nights + 1, len(sights))
    for place, sight in enumerate(sights):
        day = trip.arrival + timedelta(days=place * days // len(sights))
        ticket = f"€ {sight['eur']}" if sight["eur"] else "free"
        rows.append(f"| {day:%a} {day.day} {day:%b} | **{sight['name']}** | {sight['see']} | {ticket} |")
    return "\n".join(rows)


def costs(trip: Trip, prices: dict[str, int]) -> str:
    """Return the costs as a table with their sum."""
    people = f"{trip.travellers} travellers" if trip.travellers > 1 else "one traveller"
    rows = "\n".join(f"| {kind} | {eur:,} |" for kind, eur in prices.items())
    total = sum(prices.values())
    return (
        f"{trip.city}, {span(trip)}, for {people}:\n\n| | EUR |\n| --- | ---: |\n{rows}\n| **Total** | **{total:,}** |\n\n"
        f"That is € {round(total / trip.travellers):,} each, without the journey. Two share a room."
    )


def packing(trip: Trip, weather: dict[str, int]) -> str:
    """Return a packing list for the weather."""
    items = [
        f"{trip.nights + 1} sets of underwear and socks",
        "Passport, bank card, charger",
        "Comfortable shoes: the days are long",
    ]
    items += ["Sun cream, hat and sunglasses"] * (weather["high"] >= 22) + ["Light clothes for hot afternoons"] * (
        weather["high"] >= 27
    )
    items += ["A sweater for the evening"] * (12 <= weather["high"] < 25) + ["Warm coat, gloves and a scarf"] * (
        weather["high"] < 12
    )
    items += ["Rain jacket"] * (weather["rainy_days"] >= 7)
    return f"{climate(trip, weather)} So take:\n\n" + "\n".join(f"- [ ] {each}" for each in items)


def climate(trip: Trip, weather: dict[str, int]) -> str:
    """Return a sentence about the usual weather."""
    rainy = f"{weather['rainy_days']} rainy days" if weather["rainy_days"] > 1 else "hardly any rain"
    return f"{MONTHS[trip.arrival.month - 1]} in {trip.city} usually has {weather['high']} °C in the afternoon and {rainy}."


def span(trip: Trip) -> str:
    """Return the first and the last day."""
    last = trip.arrival + timedelta(days=trip.nights)
    return f"{trip.arrival.day} {trip.arrival:%B} to {last.day} {last:%B %Y}"


def greeting(asks: bool) -> str:
    """Return what the planner can do; if the traveller has asked for something, the question for a city."""
    *others, last = (each.name for each in CITIES.values())
    known = f"{', '.join(others)} and {last}"
    if asks:
        return f"Which city? I know {known}."
    return f"I plan trips to {known}. Ask me for a plan, the costs, the weather, a packing list, a map, or the itinerary as a file."
