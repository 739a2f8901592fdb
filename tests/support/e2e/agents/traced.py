"""ADK agent without a model, and a graph. Neither of them logs or counts anything."""

from collections.abc import AsyncGenerator

from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.genai import types
from opentelemetry import trace


class Traced(BaseAgent):
    """Agent with a span of its author; its answer or error repeats the message's text."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        with trace.get_tracer("an.author").start_as_current_span("author's own"):
            said = str(ctx.user_content.parts[0].text) if ctx.user_content and ctx.user_content.parts else ""
            if "explode" in said:
                raise RuntimeError(f"It was said: {said}")
            yield Event(author=self.name, content=types.Content(role="model", parts=[types.Part(text=f"Heard {said}")]))


agent = Traced(name="traced")
