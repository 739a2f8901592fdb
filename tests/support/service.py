"""The real service over a store and an agent, without HTTP."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI
from langgraph.checkpoint.memory import InMemorySaver

from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.checkpointing.turn import Fence
from aion_core.clock import SystemClock
from aion_core.memory.checkpoints import MemorySaver
from aion_core.memory.queues import MemoryBells
from aion_core.memory.task_list import MemoryTaskList
from aion_core.memory.task_store import MemoryTaskStore
from aion_core.ports import Agent, AnswerAs, Clock, ReplyAs, TaskList, TaskStore, WhenBusy
from aion_core.protocol.card import build_card
from aion_core.protocol.types import AgentCard
from aion_core.tasks.conversations import Conversations
from aion_core.tasks.history import ContextHistory
from aion_core.tasks.listing import TaskLister
from aion_core.tasks.runner import TaskRunner
from aion_core.tasks.service import TaskService
from aion_core.tasks.worker import Worker
from aion_core.web.app import Served, build_app


@dataclass
class Parts:
    """What meets in a service."""

    service: TaskService
    lister: TaskLister
    agent: Agent
    worker: Worker
    bells: MemoryBells
    store: TaskStore
    conversations: Conversations
    streaming: bool = True
    described: Mapping[str, Any] = field(default_factory=dict)
    """What the card says otherwise, by the names of `build_card`."""
    extended_card: AgentCard | None = None

    @property
    def card(self) -> AgentCard:
        """The agent's card."""
        said: dict[str, Any] = {
            "name": "Test",
            "description": "A test's agent.",
            "version": "1",
            "url": "http://test/",
            "streaming": self.streaming,
            "skills": [],
            "input_modes": ["text/plain", "application/json", "application/octet-stream"],
            "output_modes": ["text/plain"],
        }
        return build_card(**{**said, **self.described})

    def app(self) -> FastAPI:
        """The ASGI app that serves the agent as `test`."""
        served = Served(self.agent, self.card, self.extended_card)
        return build_app(self.service, self.lister, self.conversations, {"test": served})


def parts(
    agent: Any,
    store: TaskStore | None = None,
    clock: Clock | None = None,
    *,
    double_texting: WhenBusy = WhenBusy.ENQUEUE,
    blocking_wait: float = 240.0,
    task_list: TaskList | None = None,
    reply: ReplyAs = ReplyAs.TASK,
    answer: AnswerAs = AnswerAs.MESSAGE,
    **options: Any,
) -> Parts:
    """The service for an agent, or for a graph; in memory unless a store is given, and the list of its tasks."""
    clock = clock or SystemClock()
    tasks = MemoryTaskStore(clock)
    threads = InMemorySaver()
    agent = (
        agent
        if hasattr(agent, "load")
        else LangGraphAgent(
            agent,
            lambda asked, before_put, types: MemorySaver(
                threads,
                tasks,
                fence=Fence(asked.context, asked.fence) if store is None else None,
                before_put=before_put,
                types=types,
            ),
        )
    )
    store = store or tasks
    bells = MemoryBells(clock)
    task_list = task_list or MemoryTaskList(store if isinstance(store, MemoryTaskStore) else tasks)
    history = ContextHistory(store, task_list).of
    replies = {"test": reply}
    runner = TaskRunner(
        store,
        {"test": agent}.__getitem__,
        clock,
        bells,
        history=history,
        replies=replies,
        answers={"test": answer},
        **options,
    )
    worker = Worker(store, runner, bells, clock)
    bells.answered_by(worker.answer)
    policies = {"test": double_texting}
    service = TaskService(
        store, worker, bells, clock, double_texting=policies, blocking_wait=blocking_wait, replies=replies
    )
    lister = TaskLister(store, task_list)
    return Parts(service, lister, agent, worker, bells, store, Conversations(store, task_list))


@asynccontextmanager
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the app in this process."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


def send(text: str = "hi", *, message_id: str = "m-1", method: str = "SendMessage", **message: Any) -> dict[str, Any]:
    """A JSON-RPC request that sends a text, in the dialect of its method."""
    old = "/" in method
    part = {"kind": "text", "text": text} if old else {"text": text}
    role = "user" if old else "ROLE_USER"
    return {
        "jsonrpc": "2.0",
        "id": 7,
        "method": method,
        "params": {"message": {"messageId": message_id, "role": role, "parts": [part], **message}},
    }
