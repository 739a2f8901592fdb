"""Real TaskService over a given store and agent, without HTTP."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.types import ASGIApp

from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.clock import Clock, SystemClock
from aion_core.engine.agent import Agent
from aion_core.engine.agent_options import AnswerAs, PushEvents, ReplyAs, WhenBusy
from aion_core.engine.call import CallContext
from aion_core.engine.delivery.push_configs import PushConfigs
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.listing.list_tasks import TaskLister
from aion_core.engine.listing.task_list import TaskList
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.runner.worker import Worker
from aion_core.engine.service import TaskService
from aion_core.engine.task_store import TaskStore
from aion_core.engine.wake_ups import CommitNotifier
from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.local.memory.queues import MemoryPushQueue, MemoryWorkQueue
from aion_core.protocol.card import AgentDescription, CardCapabilities, build_card
from aion_core.protocol.media_types import Modes
from aion_core.protocol.types import AgentCard, SendMessageRequest, Task
from aion_core.push.client import WebhookClient
from aion_core.push.configs import PushRegistry
from aion_core.push.delivery import PushDelivery
from aion_core.push.request import render
from aion_core.push.ssrf import WebhookPolicy
from aion_core.state.langgraph.checkpoints import TableSaver
from aion_core.state.long_term_memory import LongTermMemory
from aion_core.telemetry import Metrics, NullMetrics
from aion_core.web.app import build_app
from aion_core.web.app_parts import Instruments, ServedAgent, SharedServices
from aion_core.web.cards.agent_cards import AgentCards
from aion_core.web.cards.publication import CardPublisher
from tests.support.stores import MemoryPushConfigs, MemoryTaskList, MemoryTaskStore


@dataclass
class ServiceParts:
    """Parts of a service."""

    service: TaskService
    lister: TaskLister
    agent: Agent
    worker: Worker
    work_queue: MemoryWorkQueue
    store: TaskStore
    conversations: Conversations
    streaming: bool = True
    described: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `CardCapabilities`, and the skills and media types of the card."""
    extended_card: AgentCard | None = None
    push: "PushParts | None" = None

    @property
    def card(self) -> AgentCard:
        """Return the agent's card."""
        said = {
            "streaming": self.streaming,
            "push_notifications": self.push is not None,
            "aion_extensions": True,
            **self.described,
        }
        takes = said.pop("input_modes", ["text/plain", "application/json", "application/octet-stream"])
        gives = said.pop("output_modes", ["text/plain"])
        return build_card(
            AgentDescription("Test", "A test's agent.", "1"),
            "http://test/",
            modes=Modes(tuple(takes), tuple(gives)),
            skills=said.pop("skills", []),
            capabilities=CardCapabilities(**said),
        )

    def app(self, metrics: Metrics | None = None) -> FastAPI:
        """Return the ASGI app, with the agent under the id `test`."""
        cards = AgentCards.of(self.card, self.extended_card)
        served = ServedAgent(self.agent, cards, self.described.get("aion_extensions", True))
        registry = self.push.registry if self.push else None
        services = SharedServices(self.service, self.lister, self.conversations, CardPublisher("http://test"), registry)
        return build_app(services, {"test": served}, instruments=Instruments(metrics or NullMetrics()))


@dataclass
class PushParts:
    """Parts of push delivery."""

    configs: PushConfigs
    queue: MemoryPushQueue
    delivery: PushDelivery
    registry: PushRegistry


def parts(
    agent: Any,
    store: TaskStore | None = None,
    clock: Clock | None = None,
    *,
    double_texting: WhenBusy = WhenBusy.ENQUEUE,
    blocking_wait: float | None = 240.0,
    task_list: TaskList | None = None,
    reply: ReplyAs = ReplyAs.TASK,
    answer: AnswerAs = AnswerAs.MESSAGE,
    webhooks: WebhookClient | None = None,
    allowed: WebhookPolicy | None = None,
    push_events: PushEvents = PushEvents.STATUS,
    redacts: bool = False,
    **options: Any,
) -> ServiceParts:
    """Return the service of an agent, or of a graph; by default its store and its task list are in memory.

    With `webhooks`, the service sends push notifications, to the `allowed` URLs.
    """
    clock = clock or SystemClock()
    push_queue = MemoryPushQueue(clock)
    tasks = MemoryTaskStore(clock, notifier=CommitNotifier(push_queue if webhooks is not None else None))
    blobs = MemoryBlobs()
    fenced = store is None
    agent = (
        agent
        if hasattr(agent, "load")
        else LangGraphAgent(
            agent,
            lambda fence, **options: TableSaver(tasks.table, blobs, clock, fence=fence if fenced else None, **options),
            memories=lambda fence: LongTermMemory(tasks.table, clock, fence=fence if fenced else None),
        )
    )
    store = store or tasks
    work_queue = MemoryWorkQueue(clock)
    task_list = task_list or MemoryTaskList(store if isinstance(store, MemoryTaskStore) else tasks)
    push = None
    if webhooks is not None:
        configs = MemoryPushConfigs(tasks, clock)
        delivery = PushDelivery(store, configs, push_queue, webhooks, render, clock, chance=lambda: 0.0)
        push_queue.handled_by(delivery.deliver)
        events = {"test": push_events}
        policy, redacting = allowed or WebhookPolicy(), ["test"] if redacts else []
        registry = PushRegistry(
            configs, push_queue, store, task_list, policy, clock, events=events, redacting=redacting
        )
        push = PushParts(configs, push_queue, delivery, registry)
    conversations = Conversations(store, task_list)
    replies, answers = {"test": reply}, {"test": answer}
    runner = TaskRunner(
        store,
        {"test": agent}.__getitem__,
        clock,
        work_queue,
        conversations=conversations,
        replies=replies,
        answers=answers,
        **options,
    )
    worker = Worker(store, runner, work_queue, clock)
    work_queue.handled_by(worker.handle)
    policies = {"test": double_texting}
    service = TaskService(
        store,
        worker,
        work_queue,
        clock,
        double_texting=policies,
        blocking_wait=blocking_wait,
        replies=replies,
        answers=answers,
    )
    lister = TaskLister(store, task_list)
    return ServiceParts(service, lister, agent, worker, work_queue, store, conversations, push=push)


@asynccontextmanager
async def http(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the app in this process."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


def rpc_bodies(answer: httpx.Response) -> list[dict[str, Any]]:
    """Return the JSON-RPC responses: that of a unary response, or the frames of a stream."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return [answer.json()]
    lines = answer.text.splitlines()
    return [json.loads(line.removeprefix("data:")) for line in lines if line.startswith("data:")]


def rpc_body(answer: httpx.Response) -> dict[str, Any]:
    """Return the JSON-RPC response: that of a unary response, or the only frame of a v0.3 stream."""
    (body,) = rpc_bodies(answer)
    return body


def send(text: str = "hi", *, message_id: str = "m-1", method: str = "SendMessage", **message: Any) -> dict[str, Any]:
    """Return a JSON-RPC request with a text, in the dialect of its method."""
    old = "/" in method
    part = {"kind": "text", "text": text} if old else {"text": text}
    role = "user" if old else "ROLE_USER"
    return {
        "jsonrpc": "2.0",
        "id": 7,
        "method": method,
        "params": {"message": {"messageId": message_id, "role": role, "parts": [part], **message}},
    }


async def send_task(service: TaskService, call: CallContext, request: SendMessageRequest) -> Task:
    """Send the message; return its task."""
    response = await service.send(call, request)
    assert isinstance(response, Task)
    return response
