"""What a graph is to us: its type, and the channels of its state that mean something to us, where its author has them."""

from typing import Any

from langgraph.pregel import Pregel

Graph = Pregel[Any, Any, Any, Any]

MESSAGES, INBOX, OUTBOX = "messages", "a2a_inbox", "a2a_outbox"
