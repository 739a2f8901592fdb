"""ADK agent that counts the words of a message with a tool. Its scripted model needs no key and no network."""

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


class CountingModel(BaseLlm):
    """Scripted model: calls `count_words` with the last message, then streams the result word by word."""

    model: str = "counting"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """See `BaseLlm.generate_content_async`."""
        parts = llm_request.contents[-1].parts or []
        counted = next((part.function_response for part in parts if part.function_response), None)
        text = "".join(part.text for part in parts if part.text)
        if counted is not None:
            count = (counted.response or {}).get("words")
            answer = f"Your message has {count} {'word' if count == 1 else 'words'}."
        elif not text:
            answer = "Send me some text, and I count its words."
        else:
            call = types.FunctionCall(name="count_words", args={"text": text})
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))
            return
        for word in re.findall(r"\s*\S+", answer) if stream else ():
            yield LlmResponse(content=types.ModelContent(word), partial=True)
        yield LlmResponse(content=types.ModelContent(answer))


root_agent = LlmAgent(
    name="counter", description="Counts the words of what you say.", model=CountingModel(), tools=[count_words]
)
