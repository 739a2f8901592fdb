"""LangGraph graph with files in and out: it returns each text file in upper case. No key, no network."""

import base64
from typing import Annotated, Any

from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from aion.langgraph.stream import emit_file
from aion.shared.types import A2AInbox


class FilesState(TypedDict):
    """State of the graph: its messages, and the A2A message that has the files."""

    messages: Annotated[list[Any], add_messages]
    a2a_inbox: A2AInbox | None


def shout(state: FilesState) -> dict[str, Any]:
    """Return each text file of the message in upper case, as an artifact."""
    writer = get_stream_writer()
    inbox = state["a2a_inbox"]
    parts = inbox.message.parts if inbox and inbox.message else []
    files = [part for part in parts if part.WhichOneof("content") == "raw"]
    for part in files:
        text = part.raw.decode(errors="replace").upper()
        content = base64.b64encode(text.encode()).decode()
        emit_file(writer, base64=content, mime_type=part.media_type or "text/plain", name=part.filename or "file.txt")
    answer = f"{len(files)} file{'s' if len(files) > 1 else ''}." if files else "Send me a text file."
    return {"messages": [AIMessage(answer)]}


graph = StateGraph(FilesState).add_node("shout", shout).add_edge(START, "shout")
