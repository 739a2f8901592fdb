"""Emissions of an agent in one turn: each is recorded or streamed, until the turn's ending."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable

from aion_core.engine.agent import (
    AgentTyping,
    Batch,
    Chunk,
    Emission,
    Ending,
    InputRequired,
    Paused,
    Reply,
    StepCompleted,
    Suspended,
    TaskUsed,
)
from aion_core.engine.runner.execution import TurnExecution
from aion_core.engine.runner.metrics import TurnMetrics

logger = logging.getLogger(__name__)

AFTER_END_SECONDS = 5.0
"""Time limit for an agent's code after its turn has ended, because another turn may have the lease by then."""


async def record(
    turn: TurnExecution,
    metrics: TurnMetrics,
    emissions: AsyncGenerator[Emission, None],
    keep_handlers: Callable[[], None],
) -> Ending:
    """Record or stream each emission of the agent, and return the turn's ending."""
    async for emission in emissions:
        turn.agent_ran = True
        # Restore the log handlers, because the agent's code may set up logging at any time.
        keep_handlers()
        match emission:
            case Chunk():
                turn.text.add(emission)
                if emission.text:
                    metrics.count_chunk()
            case AgentTyping():
                turn.type()
            case StepCompleted():
                turn.made_progress = True
            case TaskUsed():
                turn.use_task()
            case Reply() | InputRequired() | Paused() | Suspended():
                return emission
            case Batch():
                await turn.emit(*emission.emissions)
            case _:
                await turn.emit(emission)
    return Reply(None)


async def run_out(emissions: AsyncGenerator[Emission, None]) -> None:
    """Give the agent's code a short time to finish after its turn has ended, and ignore its emissions."""
    try:
        async with asyncio.timeout(AFTER_END_SECONDS):
            async for _ in emissions:
                logger.warning("The agent emitted after its end; ignored.")
    except TimeoutError:
        logger.warning("The agent did not return after its end; it is canceled.")
    except Exception:  # an agent may raise any exception
        logger.exception("The agent failed after its end.")
