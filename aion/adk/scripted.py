"""Model of an ADK agent that needs no API key."""

from aion_core.authoring.scripted_llm import ScriptedLlm

__all__ = ["ScriptedLlm"]
