"""ADK sequence of two agents: the first calls the tool `pay`, the second reports the payment.

`HELD_IN` names the agent that hangs in the middle of its text, so that a test can kill the process.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types as genai

from tests.support.adk import Script, call, content, scripted_model, texts

WORDS = {"payer": ["It ", "is ", "paid ", "now."], "teller": ["All ", "of ", "it ", "is done."]}
AGAIN = "What was said?"


def note(line: str) -> None:
    with Path(os.environ["NOTED_IN"]).open("a") as notes:
        notes.write(f"{line}\n")


def pay() -> str:
    """Write the line `pay` to the file, and return a receipt."""
    note("pay")
    return "receipt-7"


class Speaker(BaseLlm):
    """Model of both agents: the payer calls the tool, then each streams its text. A later turn returns its input."""

    model: str = "speaker"
    speaks_for: str

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        seen = texts(llm_request.contents)
        if f"user: {AGAIN}" in seen:
            script: Script = ["\n".join(seen)]
        elif self.speaks_for == "payer" and not any("pay -> " in line for line in seen):
            script = [call("pay")]
        else:
            words = WORDS[self.speaks_for]
            script = [*words]
            note(self.speaks_for)
            if os.environ.get("HELD_IN") == self.speaks_for:
                for word in words[:2]:
                    yield LlmResponse(content=content(genai.Part(text=word)), partial=True)
                await asyncio.sleep(300)
        async for response in scripted_model(script).generate_content_async(llm_request, stream):
            yield response


payer = LlmAgent(name="payer", model=Speaker(speaks_for="payer"), tools=[pay])
teller = LlmAgent(name="teller", model=Speaker(speaks_for="teller"))
root_agent = SequentialAgent(name="root", sub_agents=[payer, teller])
