"""An ADK agent with one tool. The scripted `model` needs no API key; replace it by a real one."""

import re
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types


def count_words(text: str) -> dict[str, int]:
    """Count the words of a text."""
    return {"words": len(text.split())}


class StandInModel(BaseLlm):
    """Stand-in for a real model: it calls `count_words` on the last message, then streams the result word by word."""

    model: str = "scripted"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the tool call, or the answer after the tool's result."""
        parts = llm_request.contents[-1].parts or []
        result = next((part.function_response for part in parts if part.function_response), None)
        if result is None:
            text = "".join(part.text for part in parts if part.text)
            call = types.FunctionCall(name="count_words", args={"text": text})
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))
            return
        count = (result.response or {}).get("words")
        answer = f"Your message has {count} {'word' if count == 1 else 'words'}."
        for word in re.findall(r"\s*\S+", answer) if stream else ():
            yield LlmResponse(content=types.ModelContent(word), partial=True)
        yield LlmResponse(content=types.ModelContent(answer))


# For Gemini, put GOOGLE_API_KEY into .env and replace the next line by:
#
#   model = "gemini-2.5-flash"
#
# For models of other providers, run `uv run aion add litellm` and use LiteLLM:
#
#   from google.adk.models.lite_llm import LiteLlm
#   model = LiteLlm("openai/gpt-5-mini")
model = StandInModel()

root_agent = LlmAgent(
    name="agent",
    description="Counts the words of a message.",
    instruction="Count the words of the user's message with the tool, and answer with their number.",
    model=model,
    tools=[count_words],
)
