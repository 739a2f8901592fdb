"""ADK agent with a long-running tool: another system gives the result, perhaps days later. No key, no network."""

import re
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import LongRunningFunctionTool
from google.genai import types


def request_refund(amount: int) -> None:
    """Ask the accounting department for a refund of this amount."""
    # Send a mail or create a ticket here. The task waits for the result, and no process runs meanwhile.


class RefundingModel(BaseLlm):
    """Scripted model: calls `request_refund` with the number in the message, then reports the decision."""

    model: str = "refunding"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """See `BaseLlm.generate_content_async`."""
        parts = llm_request.contents[-1].parts or []
        decided = next((part.function_response for part in parts if part.function_response), None)
        number = re.search(r"\d+", "".join(part.text for part in parts if part.text))
        if decided is not None:
            yield LlmResponse(content=types.ModelContent(f"Your refund is {(decided.response or {}).get('result')}."))
        elif number is None:
            yield LlmResponse(content=types.ModelContent("Which amount shall I ask for?"))
        else:
            call = types.FunctionCall(name="request_refund", args={"amount": int(number[0])})
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))


root_agent = LlmAgent(
    name="refunds",
    description="Asks the accounting department for refunds.",
    model=RefundingModel(),
    tools=[LongRunningFunctionTool(request_refund)],
)
