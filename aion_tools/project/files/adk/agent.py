"""An ADK agent with one tool. Its model is Gemini if GOOGLE_API_KEY is set; without a key, a scripted one."""

import os

from aion.adk.scripted import ScriptedLlm
from google.adk.agents import LlmAgent


def count_words(text: str) -> str:
    """Count the words of a text."""
    count = len(text.split())
    return "1 word" if count == 1 else f"{count} words"


# For other providers, run `uv add litellm` and use google.adk.models.lite_llm.LiteLlm("openai/gpt-5-mini").
model = "gemini-2.5-flash" if os.environ.get("GOOGLE_API_KEY") else ScriptedLlm(answer="Your message has {result}.")

root_agent = LlmAgent(
    name="agent",
    description="Counts the words of a message.",
    instruction="Count the words of each message with the tool.",
    model=model,
    tools=[count_words],
)
