"""ADK's model without a provider: it calls the agent's first tool, and answers with the result."""

import re
from collections.abc import AsyncGenerator

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types


class ScriptedLlm(BaseLlm):
    """Model that calls the first of the agent's tools, and answers with the tool's result, word by word.

    It needs no API key, so an agent can be tried and tested without one. The tool gets the text of the last message as
    its first argument.
    """

    model: str = "scripted"
    answer: str = "{result}"
    """Text of the answer, with `{result}` for the result of the tool; without tools, for the text of the message."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the call of the tool, or the answer after the tool's result."""
        parts = llm_request.contents[-1].parts or []
        text = "".join(part.text for part in parts if part.text)
        result = next((part.function_response.response for part in parts if part.function_response), None)
        if result is None and (call := _call(llm_request.config, text)):
            yield LlmResponse(content=types.ModelContent(types.Part(function_call=call)))
            return
        answer = self.answer.format(result=text if result is None else next(iter(result.values()), ""))
        for word in re.findall(r"\s*\S+", answer) if stream else ():
            yield LlmResponse(content=types.ModelContent(word), partial=True)
        yield LlmResponse(content=types.ModelContent(answer))


def _call(config: types.GenerateContentConfig, text: str) -> types.FunctionCall | None:
    """Return a call of the first declared tool with the text as its first argument, or None without tools."""
    for tool in config.tools or ():
        for declared in (isinstance(tool, types.Tool) and tool.function_declarations) or ():
            properties = (declared.parameters_json_schema or {}).get("properties", {})
            return types.FunctionCall(name=declared.name, args=dict.fromkeys([*properties][:1], text))
    return None
