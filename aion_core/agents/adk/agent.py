"""An ADK agent as an agent: its Runner's events are a turn, from its start, or from where an earlier try has stopped."""

import warnings
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from types import ModuleType
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.events import Event
from google.adk.sessions import Session

from aion_core.agents.adk import fingerprint
from aion_core.agents.adk.declared import agent_of
from aion_core.agents.adk.going_on import NOT_RESUMABLE, NOT_TAKEN_UP, can_go_on, goes_on, is_finished, is_lost
from aion_core.agents.adk.inbound import content_of
from aion_core.agents.adk.interrupts import answer, pending, question, sealing
from aion_core.agents.adk.marks import missing
from aion_core.agents.adk.outbound import Outbound
from aion_core.agents.adk.services import credentials_of, memory_of
from aion_core.agents.adk.turn import AdkTurn, Artifacts, Call, Drained, Given, Sessions
from aion_core.agents.inbound import InvalidResumeInput, answered_question
from aion_core.agents.loader import run_guarded
from aion_core.errors import AgentFailed
from aion_core.ports import AfterCrash, Emission, Paused, TurnRequest

# It is what a turn goes on by; whoever runs the server cannot choose otherwise.
warnings.filterwarnings("ignore", r"\[EXPERIMENTAL\] ResumabilityConfig", UserWarning)


class AdkAgent:
    """`ports.Agent` of an ADK agent, or of an App; the author's object is left as it is.

    An App keeps its plugins, its compaction, and what it says of resumability; where nobody says anything, an invocation
    is resumable.
    """

    def __init__(
        self,
        agent: BaseAgent | App | Path,
        sessions: Sessions,
        artifacts: Artifacts | None = None,
        *,
        name: str = "",
        resume: AfterCrash = AfterCrash.FAIL,
        configuration: Mapping[str, Any] | None = None,
        module: ModuleType | None = None,
    ) -> None:
        """`name` is the agent's own; `resume` is for an agent that ADK does not take up again where it was.

        `configuration` is what the session's state holds from the beginning; `module` is where the agent was found: a
        memory service and a credential service there are its own. A Path is the file that declares the agent. Raises
        ConfigurationError.
        """
        if isinstance(agent, Path):
            agent = agent_of(agent)
        app = agent if isinstance(agent, App) else App(name="aion", root_agent=agent)
        if app.resumability_config is None:
            app = app.model_copy(update={"resumability_config": ResumabilityConfig(is_resumable=True)})
        assert app.root_agent is not None  # noqa: S101  # an App checks it
        self._root = app.root_agent
        self._resume = resume
        self._given = Given(
            name=name,
            app=app,
            root=app.root_agent,
            agents=fingerprint.of(app.root_agent),
            configuration=configuration or {},
            sessions=sessions,
            artifacts=artifacts,
            memory=memory_of(module),
            credentials=credentials_of(module),
        )

    def load(self) -> None:
        """See `ports.Agent.load`: whoever has an agent has imported it."""

    def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        """See `ports.Agent.run`."""
        return run_guarded(self._run(asked))

    async def _run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        turn = AdkTurn(asked, self._given)
        session = await turn.session()
        before = turn.events(session)
        invocation = turn.invocation(session)
        again = self._begins_again(turn, invocation)
        outbound = Outbound(asked, turn.load, again=again)
        # What is stored is not said again by the agents that go on; it may not have been recorded.
        for event in before:
            if not again or self._goes_on(event.author):
                async with aclosing(outbound.hear(event)) as emissions:
                    async for emission in emissions:
                        yield emission
        try:
            call = None if is_finished(self._root, invocation) else await self._call(asked, turn, session, before)
        except InvalidResumeInput as unfit:
            yield question(pending(session.events), unfit=str(unfit))
            return
        try:
            if call is not None:
                async with aclosing(turn.stream(call, outbound)) as emissions:
                    async for emission in emissions:
                        yield emission
        except Drained:
            for emission in outbound.silence():
                yield emission
            yield Paused()
            return
        for emission in _ended(outbound, turn.stored() or session.events):
            yield emission

    async def _call(self, asked: TurnRequest, turn: AdkTurn, session: Session, before: Sequence[Event]) -> Call:
        """Return what the Runner is called with: the message, the answer to what was asked, or nothing but where to go on.

        Raises Unfit where the message is no answer to what was asked.
        """
        if before:
            for mark in missing(self._root, turn.invocation(session)) if turn.is_resumable else ():
                await turn.append(session, mark)
            # Where an App is not resumable ADK wants the message again, and stores it once.
            given = None if turn.is_resumable else next(event.content for event in before if event.author == "user")
            return Call(given, before[0].invocation_id)
        asking = answered_question(asked)
        if asking is not None and (answered := answer(asked, asking, pending(session.events))) is not None:
            invocations = {each.event.invocation_id for each in pending(session.events)}
            self._check_agents([event for event in session.events if event.invocation_id in invocations])
            return Call(answered)
        for seal in sealing(session.events):
            await turn.append(session, seal)
        return Call(content_of(asked))

    def _begins_again(self, turn: AdkTurn, events: Sequence[Event]) -> bool:
        """Tell whether an agent starts over, though the turn has begun; raises AgentFailed where it may not."""
        if not events or is_finished(self._root, events):
            return False
        self._check_agents(events)
        if is_lost(self._root, events):
            raise AgentFailed(NOT_TAKEN_UP)
        # An App that is not resumable still goes on where its one agent is an LLM agent.
        if can_go_on(self._root, events) and (turn.is_resumable or isinstance(self._root, LlmAgent)):
            return False
        if self._resume is AfterCrash.FAIL:
            raise AgentFailed(NOT_RESUMABLE)
        return True

    def _check_agents(self, events: Sequence[Event]) -> None:
        """Raise AgentFailed where an agent is gone that may have been at work."""
        if not fingerprint.fits(self._root, events):
            raise AgentFailed(fingerprint.REDEPLOYED)

    def _goes_on(self, author: str) -> bool:
        agent = self._root.find_agent(author) if isinstance(self._root, BaseAgent) else None
        return agent is not None and goes_on(agent)


def _ended(outbound: Outbound, stored: Sequence[Event]) -> Iterator[Emission]:
    """Yield how the turn ended that the agent has nothing more to say of: with a question, or with its answer."""
    if asked := pending(stored):
        yield from outbound.before_question()
        yield question(asked)
    else:
        yield from outbound.rest()
