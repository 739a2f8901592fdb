"""Agent for conversations in tests: it can stream words, return data or markup, ask a question, and wait for a file."""

AGENT = """
import asyncio
from pathlib import Path

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from aion.langgraph.stream import emit_data, emit_message

WORDS = [f"word{number}" for number in range(12)]
TABLE = "| row | note |\\n|---|---|\\n" + "\\n".join(f"| row{place} | {'x' * (place % 20)} |" for place in range(60))
CODE = "```python\\n" + "\\n".join(f"code{place} = 1" for place in range(80)) + "\\n```"
HEBREW = " ".join(f"\u05e9\u05dc\u05d5\u05dd{place}" for place in range(400))
FORM = {"type": "object", "required": ["seats", "city"], "properties": {
    "city": {"type": "string", "enum": ["Oslo", "Bergen"]}, "seats": {"type": "integer", "minimum": 1},
    "window": {"type": "boolean"}, "who": {"type": "object", "properties": {"first": {"type": "string"}}}}}


# Paragraphs of 125 words each, a table, a code block and a right-to-left text.
def essay(words: int) -> str:
    paragraphs = (" ".join(f"word{place}" for place in range(start, start + 125)) for start in range(0, words, 125))
    return "\\n\\n".join([*paragraphs, TABLE, CODE, HEBREW, "That is all."])


async def talk(state: MessagesState) -> dict:
    writer, text = get_stream_writer(), state["messages"][-1].text
    if "trip" in text:
        return Command(goto=[Send("ask", {"prompt": "From where?"}), Send("ask", {"prompt": "By?", "options": ["bus"]})])
    if "book" in text:
        day = interrupt({"prompt": "Which day?", "options": ["Monday", "Tuesday"]})
        return {"messages": [AIMessage(f"Booked for {day}.")]}
    if "data" in text:
        emit_data(writer, {"rows": ["first", "second"]}, name="Rows")
        return {"messages": [AIMessage("See the data.")]}
    if "essay" in text:
        model = GenericFakeChatModel(messages=iter([AIMessage(essay(int(text.split()[-1])))]))
        return {"messages": [await model.ainvoke(text)]}
    if "form" in text:
        return {"messages": [AIMessage(f"Got {interrupt({'prompt': 'Which trip?', 'response_schema': FORM})}.")]}
    if "markup" in text:
        return {"messages": [AIMessage("<img src=x onerror=alert(1)> **bold**\\n\\n- one\\n- two\\n\\n[site](https://example.com)")]}
    for word in WORDS:
        emit_message(writer, AIMessageChunk(content=word + " ", id="answer"))
        while word == "word5" and "gate" in text and not Path(__file__).with_name(text.split()[-1]).exists():
            await asyncio.sleep(0.02)
    return {"messages": [AIMessage(" ".join(WORDS), id="answer")]}


def ask(question: dict) -> dict:
    return {"messages": [AIMessage(f"{question['prompt']} {interrupt(question)}!")]}


graph = StateGraph(MessagesState).add_node("talk", talk).add_node("ask", ask).add_edge(START, "talk")
"""
WHOLE = " ".join(f"word{number}" for number in range(12))
"""The answer to a message without a special word."""
