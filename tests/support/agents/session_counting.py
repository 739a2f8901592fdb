"""Source text of an ADK agent that counts its turns in the state of its session."""

ADK = """
from google.adk.agents import BaseAgent
from google.adk.events import Event, EventActions
from google.genai import types


class Counting(BaseAgent):
    async def _run_async_impl(self, ctx):
        count = ctx.session.state.get("count", 0) + 1
        content = types.ModelContent(f"Message {count}.")
        yield Event(author=self.name, content=content, actions=EventActions(state_delta={"count": count}))


root_agent = Counting(name="counting")
"""
