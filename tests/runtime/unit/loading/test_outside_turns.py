"""Remote tasks of calls, against the official SDK's server: canceled, and asked for their answers."""

from collections.abc import Iterator

import httpx
import pytest

from aion_core.bootstrap.stores import build_stores
from aion_core.delegation.remote import Remote
from aion_core.delegation.remotes import Remotes
from aion_core.engine.records import AwaitedCall
from aion_core.engine.remote_calls.cancellation import Canceled
from aion_core.engine.remote_calls.records import CallState, CallToCancel, RemoteCall
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.lazy_agent import LazyAgent
from aion_core.loading.outside_turns import OutsideTurns
from aion_core.protocol.types import Message, Part, Role
from aion_core.settings import Settings
from tests.runtime.unit.delegation.remote_servers import AGENTS, served_by_sdk
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.service import send
from tests.support.stores import MemoryTaskStore


class Called:
    """A turn of the agent `echo` that has called the remote agent `weather`, which has answered."""

    def __init__(self, url: str) -> None:
        self.renewals: list[None] = []
        clock = ManualClock()
        self.store = MemoryTaskStore(clock)
        self._chat = StoreConversation(self.store, clock)
        self._url = url
        dependencies = build_stores(Settings.from_environ({"AION_STORE": "memory"}), clock).agents
        echo = LazyAgent("echo", AgentConfig(path="remote.py:RemoteExecutor"), AGENTS, dependencies)
        remotes = Remotes({"weather": Remote("weather", url)})
        calls = self.store.remote_calls
        self.tasks = OutsideTurns({"echo": echo}, remotes, calls, clock, lambda: self.renewals.append(None))

    async def call(self, *, remote: str = "weather", agent: str = "") -> RemoteCall:
        """Store the call, and send its message."""
        async with httpx.AsyncClient(headers={"A2A-Version": "1.0"}) as client:
            answer = (await client.post(self._url, json=send("say Rain"))).json()
        message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="say Rain")])
        call = RemoteCall("ask-0", remote, message, agent, remote_task=answer["result"]["task"]["id"])
        self.turn = await self._chat.starts()
        return await self.store.remote_calls.begin(self.turn.lease, call)

    async def looks(self, call: RemoteCall) -> bool:
        awaited = AwaitedCall(call.key, call.remote, call.remote_task, call.agent)
        return await self.tasks.look(self._chat.context, self.turn.head.key, [awaited])

    async def cancels(self, call: RemoteCall) -> Canceled:
        return await self.tasks.cancel(CallToCancel(self.turn.head.key, self._chat.context, call, 0, 0))


@pytest.fixture
def called() -> Iterator[Called]:
    with served_by_sdk() as url:
        yield Called(url)


async def test_look_stores_answer_of_remote_task(called: Called) -> None:
    call = await called.call()
    assert await called.looks(call)
    (stored,) = await called.store.remote_calls.of_task(called.turn.head.key)
    assert stored.state is CallState.ENDED
    assert stored.answer is not None
    assert stored.answer.task.status.message.parts[0].text == "Rain!"
    assert len(called.renewals) == 1


async def test_turn_goes_on_if_agent_makes_its_call_no_more(called: Called) -> None:
    """The agent `echo` has become one that calls no remote agents, or aion.yaml has no agent of this id."""
    call = await called.call(agent="weather_agent")
    assert await called.looks(call)
    (stored,) = await called.store.remote_calls.of_task(called.turn.head.key)
    assert stored.state is CallState.OPEN


async def test_remote_task_is_canceled_with_current_secrets(called: Called) -> None:
    call = await called.call()
    assert await called.cancels(call) is Canceled.DONE, "it has ended"
    assert len(called.renewals) == 1


async def test_call_of_agent_that_calls_no_more_is_never_canceled(called: Called) -> None:
    call = await called.call(remote="unnamed", agent="weather_agent")
    assert await called.cancels(call) is Canceled.NEVER
