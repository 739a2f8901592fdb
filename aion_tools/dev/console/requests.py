"""Requests of the console beyond A2A.

They are routes of each agent, so that its authentication applies. A caller can read only its own contexts and tasks.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from a2a.utils.errors import A2AError
from msgspec import Struct
from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uuid_utils import uuid7

from aion_core.engine.agent import Agent
from aion_core.engine.call import CallContext
from aion_core.engine.delivery.push_configs import PushConfigs
from aion_core.engine.delivery.records import Delivery
from aion_core.engine.isolation import visible_head
from aion_core.engine.push_config import PushConfig
from aion_core.engine.queues import PushQueue, PushWakeUp
from aion_core.engine.records import Head
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.engine.wake_ups import wake_delivery
from aion_core.errors import AionError, ConfigurationError, InvalidMessage, PushConfigNotFound
from aion_core.loading.lazy_agent import LazyAgent
from aion_core.protocol.ids import ID_RULE, is_id
from aion_core.table.keys import ContextKey
from aion_core.web.additions import BuildContext
from aion_core.web.errors import rest_error
from aion_core.web.request.body import BodyRefused, StrictRequest
from aion_core.web.request.call_context import call_of
from aion_tools.dev.console.drawing.of_agent import drawing_of
from aion_tools.dev.console.receiver import STATUSES, WebhookReceiver
from aion_tools.dev.console.stored_state.of_agent import forked, stored_state
from aion_tools.dev.console.turns import TurnViews

ENTRIES = 30
"""Number of checkpoints or events to show."""

Answer = Callable[[CallContext, Request], Awaitable[Any]]


class DevelopmentConsole(Struct, frozen=True):
    """Services that the console uses in `aion dev`."""

    receiver: WebhookReceiver
    tasks: StoredTasks
    configs: PushConfigs
    queue: PushQueue
    turns: TurnViews
    kill: Callable[[], None]
    """Function that ends the process, to show how another process takes over."""


def console_routes(console: DevelopmentConsole, prefix: str, agent: Agent, build: BuildContext) -> list[Route]:
    """Return the console's routes of an agent below its path prefix."""
    requests = _ConsoleRequests(agent, console)
    answers: dict[tuple[str, str], Answer] = {
        ("GET", "drawing"): requests.drawing,
        ("GET", "turns"): requests.turns,
        ("GET", "state"): requests.state,
        ("POST", "fork"): requests.fork,
        ("GET", "webhooks"): requests.webhooks,
        ("POST", "redrive"): requests.redrive,
        ("POST", "receiver"): requests.set_receiver,
        ("POST", "kill"): requests.kill,
    }
    return [
        Route(f"{prefix}/console/{name}", _endpoint(answer, build), methods=[method])
        for (method, name), answer in answers.items()
    ]


def _endpoint(answer: Answer, build: BuildContext) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            content = await answer(call_of(build(request)), request)
        except ConfigurationError as error:
            # Return the error's text, because the caller is the developer of the code that cannot be loaded.
            content = {"error": str(error)}
        except BodyRefused as refused:
            return rest_error(request, refused.error, refused.http)
        except (AionError, A2AError) as error:
            return rest_error(request, error)
        return JSONResponse(content, headers={"cache-control": "no-store"})

    return endpoint


class _ConsoleRequests:
    """Console requests to one agent."""

    def __init__(self, agent: Agent, console: DevelopmentConsole) -> None:
        self._agent, self._console = agent, console

    async def drawing(self, call: CallContext, request: Request) -> Any:
        """Return the agent's parts and their edges."""
        if not isinstance(self._agent, LazyAgent):
            return None
        drawing = await drawing_of(self._agent, ContextKey(call.owner, call.agent, "console"))
        return msgspec.to_builtins(drawing)

    async def turns(self, call: CallContext, request: Request) -> Any:
        """Return the steps of the turns of each `taskId`, and the lease of the running one, by the tasks' ids."""
        heads = [await self._task(call, each) for each in request.query_params.getlist("taskId") or [""]]
        return {head.key.task_id: await self._console.turns.view(head.key, head.context) for head in heads}

    async def fork(self, call: CallContext, request: Request) -> Any:
        """Let a new context begin at an entry of the stored state of `contextId`, with edited `values` of its state.

        The answer has the new context's id, and says if and with which message the agent is to run from there.
        """
        body = await StrictRequest(request.scope, request.receive).json_object()
        values, message_id = body.get("values") or {}, str(body.get("messageId"))
        if not is_id(message_id) or not isinstance(values, dict):
            raise InvalidMessage(f"messageId has to be {ID_RULE}, and values an object.", field="messageId")
        if not isinstance(self._agent, LazyAgent):
            raise InvalidMessage("This agent has no stored state.")
        source = _context(call, str(body.get("contextId")))
        target = ContextKey(call.owner, call.agent, str(uuid7()))
        fork = await forked(self._agent, source, target, str(body.get("checkpointId")), values, message_id)
        return {"contextId": target.context_id, **asdict(fork)}

    async def state(self, call: CallContext, request: Request) -> Any:
        """Return the stored state of a context: the checkpoints of a LangGraph thread, or an ADK session."""
        context = _context(call, request.query_params.get("contextId", ""))
        if not isinstance(self._agent, LazyAgent):
            return None
        state = await stored_state(self._agent, context, limit=ENTRIES)
        return {**asdict(state), "entries": [asdict(entry) for entry in state.entries]} if state is not None else None

    async def webhooks(self, call: CallContext, request: Request) -> Any:
        """Return the webhooks of a task with their delivery states, and the posts that the receiver got."""
        key = (await self._task(call, request.query_params.get("taskId", ""))).key
        configs = {config.id: config for config in await self._console.configs.all(key)}
        deliveries = await self._console.configs.deliveries(key)
        posts = self._console.receiver.posts_of(key.task_id) if configs else []
        return {
            "webhooks": [_webhook(each, configs[each.config_id]) for each in deliveries if each.config_id in configs],
            "posts": [post.document(list(configs.values())) for post in posts],
        }

    async def redrive(self, call: CallContext, request: Request) -> Any:
        """Post a webhook's failed notifications again. Enable the webhook if a 410 response has disabled it."""
        body = await StrictRequest(request.scope, request.receive).json_object()
        key, config_id = (await self._task(call, str(body.get("taskId")))).key, str(body.get("configId"))
        if not is_id(config_id) or await self._console.configs.redrive(key, config_id) is None:
            raise PushConfigNotFound(config_id)
        await wake_delivery(self._console.queue, PushWakeUp(key))
        return {}

    async def set_receiver(self, call: CallContext, request: Request) -> Any:
        """Set the status code for the receiver's next responses."""
        status = (await StrictRequest(request.scope, request.receive).json_object()).get("status")
        if not isinstance(status, int) or status not in STATUSES:
            raise InvalidMessage(f"status has to be one of {', '.join(map(str, STATUSES))}.", field="status")
        self._console.receiver.status = status
        return {}

    async def kill(self, call: CallContext, request: Request) -> Any:
        """End this process. The client gets no response. The JSON body makes another page ask by a preflight first."""
        await StrictRequest(request.scope, request.receive).json_object()
        self._console.kill()
        return {}

    async def _task(self, call: CallContext, task_id: str) -> Head:
        """Return the head of one of the caller's tasks with this agent. Raises InvalidMessage or TaskNotFound."""
        if not is_id(task_id):
            raise InvalidMessage(f"taskId has to be {ID_RULE}.", field="taskId")
        return await visible_head(self._console.tasks, task_id, call)


def _context(call: CallContext, context_id: str) -> ContextKey:
    if not is_id(context_id):
        raise InvalidMessage(f"contextId has to be {ID_RULE}.", field="contextId")
    return ContextKey(call.owner, call.agent, context_id)


def _webhook(delivery: Delivery, config: PushConfig) -> dict[str, Any]:
    next_at = delivery.next_at.isoformat() if delivery.next_at else ""
    return {
        "id": delivery.config_id,
        "url": config.url,
        "delivered": delivery.cursor,
        "tries": delivery.tries,
        "nextAt": next_at,
        "failure": delivery.failure,
        "dead": delivery.dead,
        "disabled": delivery.disabled,
    }
