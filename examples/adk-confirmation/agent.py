"""ADK agent whose tool needs a confirmation by the client. Its scripted model needs no key and no network."""

import re
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import FunctionTool
from google.genai import types


def delete_files(count: int) -> dict[str, Any]:
    """Delete this number of files."""
    return {"deleted": count}


class DeletingModel(BaseLlm):
    """Scripted model: calls `delete_files` with the number in the message, then reports the result."""

    model: str = "deleting"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """See `BaseLlm.generate_content_async`."""
        parts = llm_request.contents[-1].parts or []
        answered = next((part.function_response for part in parts if part.function_response), None)
        number = re.search(r"\d+", "".join(part.text for part in parts if part.text))
        if answered is not None:
            deleted = (answered.response or {}).get("deleted")
            answer = f"Deleted {deleted} file{'s' if deleted > 1 else ''}." if deleted else "Nothing is deleted."
            yield LlmResponse(content=types.ModelContent(answer))
        elif number is None:
            yield LlmResponse(content=types.ModelContent("How many files shall I delete?"))
        else:
            call = types.FunctionCall(name="delete_files", args={"count": int(number[0])})
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))


root_agent = LlmAgent(
    name="cleaner",
    description="Deletes files after a confirmation.",
    model=DeletingModel(),
    tools=[FunctionTool(delete_files, require_confirmation=True)],
)
