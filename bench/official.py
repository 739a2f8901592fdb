"""The official A2A SDK's server with the graph, its default request handler, in-memory store and JSON-RPC routes."""

from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, Part
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from bench.chat import Chat, in_memory


class GraphExecutor(AgentExecutor):
    """Executor that streams the graph's chunks as one artifact, like the samples of the SDK."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Run the graph on the message."""
        assert context.message is not None  # noqa: S101  # the request handler always sets it
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        text = ""
        async for word in self._chat.words(context.get_user_input(), task.context_id):
            await updater.add_artifact([Part(text=word)], artifact_id="stream", append=bool(text))
            text += word
        await updater.complete(updater.new_agent_message([Part(text=text)]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Do nothing: no scenario cancels a task."""


def routes(chat: Chat, tasks: TaskStore) -> list[BaseRoute]:
    """Return the routes of the server with this graph and this store of tasks."""
    card = AgentCard(name="bench", capabilities=AgentCapabilities(streaming=True))
    handler = DefaultRequestHandler(GraphExecutor(chat), tasks, card)
    return [*create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True)]


app = Starlette(routes=routes(in_memory(), InMemoryTaskStore()))
