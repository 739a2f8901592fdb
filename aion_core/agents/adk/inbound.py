"""An A2A message as ADK's input (R83-R86)."""

from google.genai import types as genai

from aion_core.agents.adk.parts import content_parts
from aion_core.agents.inbound import text_of
from aion_core.ports import TurnRequest


def content_of(asked: TurnRequest) -> genai.Content:
    """Return the message as the Content that begins an invocation.

    Where none of its parts can be used it is the message's plain text, which may be empty (R85): ADK begins with a
    message that has at least one part.
    """
    return genai.Content(role="user", parts=content_parts(asked.message.parts) or [genai.Part(text=text_of(asked))])
