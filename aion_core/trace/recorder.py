"""Recorder of one turn's steps."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec.structs import replace

from aion_core.clock import Clock
from aion_core.source_files import line_of_author
from aion_core.trace.content import LONGEST, short_text
from aion_core.trace.line import line_of
from aion_core.trace.step import Kind, Step, TracedTurn
from aion_core.trace.store import TraceStore

logger = logging.getLogger(__name__)

MOST_STEPS = 500
"""Most recorded steps in a try of a turn. Further ones are counted."""

MOST_CONTENT = 128 * 1024
"""Most characters of all arguments and results in a try of a turn. Later steps have none."""

LIVE_SECONDS = 0.25
"""Time between two writes to the store while a turn runs. A shorter turn is written once, after its end."""

ExportSpans = Callable[[TracedTurn, Sequence[Step]], None]
"""Function that exports the steps of an ended turn as spans, children of the current one."""


class TurnTrace:
    """Steps of one try of a turn. No method raises an error: the trace is lost then, and the log says it once.

    An adapter names each run of a framework by a key of its own, such as LangChain's run id. The methods may be called
    in any thread.
    """

    def __init__(
        self,
        turn: TracedTurn,
        clock: Clock,
        store: TraceStore | None = None,
        spans: ExportSpans | None = None,
        *,
        content: bool = True,
    ) -> None:
        self.turn, self._clock, self._store, self._spans = turn, clock, store, spans
        self.framework_exports = False
        """True if the agent's framework makes spans by OpenTelemetry itself, so that ours would be there twice."""
        self.failed = False
        """True if the turn has failed its task. Set it before `recording` ends."""
        self.failure: BaseException | None = None
        """The exception that has failed the task, if one has."""
        self.dropped = 0
        """Number of steps that were not recorded, because there were more than MOST_STEPS."""
        self._steps: dict[int, Step] = {}
        self._running: dict[Hashable, int] = {}
        self._around: dict[Hashable, int] = {}
        """Id of the step around a run's own steps, by the run's key: the run's own step, or the one around the run."""
        self._changed: set[int] = set()
        self._pages, self._room, self._fails = 0, MOST_CONTENT if content else 0, False
        self._logs = steps_logger.isEnabledFor(logging.DEBUG)

    @property
    def steps(self) -> Sequence[Step]:
        """The steps recorded so far, in the order of their beginnings."""
        return list(self._steps.values())

    def begin(
        self,
        key: Hashable,
        kind: Kind,
        name: str,
        *,
        parent: Hashable = None,
        provider: str = "",
        call_id: str = "",
        arguments: Any = None,
    ) -> None:
        """Record that a step begins, within the run with the key `parent`. `end` with the same key ends it."""
        try:
            around = self._around.get(parent, ROOT_ID if self._steps else 0)
            if len(self._steps) >= MOST_STEPS:
                self._around[key] = around
                self.dropped += 1
                return
            number = len(self._steps) + 1
            self._around[key] = self._running[key] = number
            text = self._text(arguments) if arguments is not None else ""
            self._keep(Step(number, kind, name, self._now(), around, None, None, None, None, provider, call_id, text))
        except Exception:  # see the class
            self._failed()

    def pass_through(self, key: Hashable, parent: Hashable) -> None:
        """Let the steps of a run that is no step itself be children of the step around it. `end` forgets the run."""
        try:
            self._around[key] = self._around.get(parent, ROOT_ID)
        except Exception:  # see the class
            self._failed()

    def first_chunk(self, key: Hashable) -> None:
        """Record that a model's first chunk has arrived."""
        try:
            if (number := self._running.get(key)) is not None and self._steps[number].first_ms is None:
                step = self._steps[number]
                self._keep(replace(step, first_ms=self._now() - step.at))
        except Exception:  # see the class
            self._failed()

    def end(
        self,
        key: Hashable,
        *,
        error: BaseException | None = None,
        result: Any = None,
        failed: bool = False,
        tokens: tuple[int | None, int | None] = (None, None),
    ) -> None:
        """Record the end of a step, with a tool's result, or its error. `failed` marks a result that is an error.

        `tokens` are those of a model call's input and output. A run that is no step is forgotten.
        """
        try:
            self._around.pop(key, None)
            if (number := self._running.pop(key, None)) is None:
                return
            step, said = self._steps[number], str(error) if error is not None else result
            self._keep(
                replace(
                    step,
                    ms=max(0.0, self._now() - step.at),
                    input_tokens=tokens[0],
                    output_tokens=tokens[1],
                    result=self._text(said) if said is not None else "",
                    error=type(error).__name__ if error is not None else OTHER if failed else "",
                    where=line_of_author(error) if error is not None else "",
                )
            )
            if self._logs:
                steps_logger.debug("%s", line_of(self._steps[number]), extra={"step": str(step.kind)})
        except Exception:  # see the class
            self._failed()

    def note(self, kind: Kind, name: str) -> None:
        """Record something that took no time: a retry, a handoff or a takeover."""
        self.begin(kind, kind, name)
        self.end(kind)

    @asynccontextmanager
    async def recording(self) -> AsyncIterator[None]:
        """Context manager for the run of the agent: the turn's own step. Store the steps meanwhile, and after its end.

        The steps are exported as children of the span around this block.
        """
        self.begin(None, Kind.AGENT, self.turn.agent)
        live = asyncio.create_task(self._store_live()) if self._store is not None else None
        try:
            yield
        finally:
            if live is not None:
                live.cancel()
            # ADK tells no end of an agent that pauses.
            for key, number in list(self._running.items()):
                if key is not None and self._steps[number].kind is Kind.AGENT:
                    self.end(key)
            self.end(None, error=self.failure, failed=self.failed)
            await self.flush()
            if self._spans is not None and not self.framework_exports:
                try:
                    self._spans(self.turn, self.steps)
                except Exception:  # see the class
                    self._failed()

    async def flush(self) -> None:
        """Store the steps that have changed since the last call."""
        if self._store is None or not self._changed:
            return
        changed, self._changed = self._changed, set()
        try:
            self._pages += 1
            await self._store.write(
                self.turn, self._pages, [self._steps[each] for each in sorted(changed)], self.dropped
            )
        except Exception:  # see the class
            self._failed()

    async def _store_live(self) -> None:
        while True:
            await self._clock.sleep(LIVE_SECONDS)
            await asyncio.shield(self.flush())

    def _keep(self, step: Step) -> None:
        self._steps[step.id] = step
        self._changed.add(step.id)

    def _text(self, value: Any) -> str:
        text = short_text(value, min(LONGEST, self._room)) if self._room > 0 else ""
        self._room -= len(text)
        return text

    def _now(self) -> float:
        return self._clock.now().timestamp() * 1000

    def _failed(self) -> None:
        if not self._fails:
            self._fails = True
            with suppress(Exception):
                logger.warning("A step of the turn could not be traced.", exc_info=True)


OTHER = "_OTHER"
"""Error of a step without an exception, as in OpenTelemetry's conventions."""

ROOT_ID = 1
"""Id of the turn's own step, which is the first."""

steps_logger = logging.getLogger("aion_core.trace.steps")
"""Logger of a line for each ended step, on the level DEBUG."""
