"""CPU time added to each streamed chunk by the LangGraph adapter, compared with bare `graph.astream()`.

`python -m tests.repository.bench.chunks` prints a line for each pair of runs, and the median. Runs with and without the adapter
alternate in one process, so that a change of the machine's speed affects both.
"""

import asyncio
import statistics
import time
from datetime import UTC, datetime

from langchain_core.messages import HumanMessage

from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.engine.admission import messages, new_tasks
from aion_core.engine.agent import TurnRequest
from aion_core.engine.records import Turn
from aion_core.engine.task import projection
from aion_core.protocol.types import Message, Part, Role
from aion_core.table.keys import ContextKey
from tests.support.agents.counting import talking

CHUNKS, PAIRS = 5000, 7

graph = talking(CHUNKS)
agent = LangGraphAgent(graph)


def asked() -> TurnRequest:
    """Return the turn request that TaskRunner would pass to the agent."""
    context = ContextKey("owner", "bench", "context")
    message = Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text="talk")])
    new = messages.new_task(
        message, context, task_id="t-1", turn_id="turn-1", at=datetime.now(UTC), context_is_new=True
    )
    return TurnRequest(context, Turn("turn-1", "t-1", 1), 1, projection.fold(new_tasks.first_log(new)), message)


async def bare() -> int:
    """Run the graph without the adapter, but with the stream modes that the adapter uses."""
    given = {"messages": [HumanMessage("talk", id="m-1")]}
    events = 0
    async for _ in graph.astream(given, stream_mode=["values", "messages", "custom", "updates"]):
        events += 1
    return events


async def adapted() -> int:
    """Run the same graph through the adapter."""
    emissions = 0
    async for _ in agent.run(asked()):
        emissions += 1
    return emissions


def cost(run: object) -> float:
    """Return the CPU time of one run in seconds."""
    before = time.process_time()
    asyncio.run(run())  # type: ignore[operator]
    return time.process_time() - before


def main() -> None:
    """Measure the CPU time with and without the adapter, and print it."""
    cost(bare), cost(adapted)
    pairs = [(cost(bare), cost(adapted)) for _ in range(PAIRS)]
    for alone, through in pairs:
        print(f"bare {alone / CHUNKS * 1e6:5.1f} µs   adapter {(through - alone) / CHUNKS * 1e6:+5.1f} µs a chunk")
    alone = statistics.median(pair[0] for pair in pairs)
    added = statistics.median(through - alone for alone, through in pairs)
    print(
        f"median: bare {alone / CHUNKS * 1e6:.1f} µs, the adapter adds {added / CHUNKS * 1e6:.1f} µs a chunk "
        f"({added / alone:.2f} of bare)"
    )


if __name__ == "__main__":
    main()
