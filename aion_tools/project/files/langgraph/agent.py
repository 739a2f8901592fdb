"""A LangGraph agent with one tool. Its model is that of the first API key below; without a key, a scripted one."""

import os

from aion.langgraph.scripted import ScriptedChatModel
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.tools import tool

MODELS = {
    "OPENAI_API_KEY": "openai:gpt-5-mini",
    "ANTHROPIC_API_KEY": "anthropic:claude-haiku-4-5",
    "GOOGLE_API_KEY": "google_genai:gemini-2.5-flash",
}


@tool
def count_words(text: str) -> str:
    """Count the words of a text."""
    count = len(text.split())
    return "1 word" if count == 1 else f"{count} words"


name = next((model for key, model in MODELS.items() if os.environ.get(key)), None)
model = init_chat_model(name) if name else ScriptedChatModel(answer="Your message has {result}.")

graph = create_agent(model, [count_words], system_prompt="Count the words of each message with the tool.")
