"""Chat model of a LangGraph agent that needs no API key."""

from aion_core.authoring.scripted_chat_model import ScriptedChatModel

__all__ = ["ScriptedChatModel"]
