"""Adapter for an ADK agent. A turn starts ADK's Runner with the message, or resumes after the last stored event."""

import warnings
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from types import ModuleType
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.auth.credential_service.base_credential_service import BaseCredentialService
from google.adk.auth.credential_service.session_state_credential_service import SessionStateCredentialService
from google.adk.events import Event
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.sessions import Session

from aion_core.agents.addressing import addressed
from aion_core.agents.adk.agent_config import agent_from_file
from aion_core.agents.adk.agent_tree import has_namesake, planning_agents
from aion_core.agents.adk.canceled_calls import canceled_responses
from aion_core.agents.adk.interrupts import Answers, input_required, resume_contents
from aion_core.agents.adk.node_resumption import make_nodes_resumable
from aion_core.agents.adk.node_steps import check_before_nodes
from aion_core.agents.adk.open_branches import keep_questions_open
from aion_core.agents.adk.parts import content_of
from aion_core.agents.adk.pending_calls import pending_calls
from aion_core.agents.adk.progress_markers import missing_markers
from aion_core.agents.adk.redeployment import agent_names, missing_agents, redeployed
from aion_core.agents.adk.remote_agents.durability import make_durable, pass_answers_on, remote_agent_named
from aion_core.agents.adk.resumption import (
    TRANSFER_NOT_RESUMABLE,
    InvocationProgress,
    not_resumable_reason,
    would_skip_question,
)
from aion_core.agents.adk.setup import AdkSetup, ArtifactFactory, SessionFactory
from aion_core.agents.adk.translation import AdkTranslator
from aion_core.agents.adk.turn import AdkTurn, Drained, RunnerInput
from aion_core.agents.adk.waits.tool_batches import make_stoppable
from aion_core.agents.adk.waits.turn_waits import TurnWaits
from aion_core.agents.client_answers import QUESTION_EXPIRED, InvalidResumeInput, answered_question
from aion_core.agents.restarts import MAX_RUNS, TOO_MANY_RUNS
from aion_core.clock import SystemClock
from aion_core.delegation.remotes import Remotes
from aion_core.engine.agent import Agent, Emission, Paused, TurnRequest
from aion_core.engine.agent_options import AfterCrash
from aion_core.engine.agent_profile import AgentProfile
from aion_core.engine.remote_calls.cancellation import Canceled
from aion_core.engine.remote_calls.records import CallToCancel, RemoteCall
from aion_core.errors import AgentFailed, ConfigurationError, LeaseLost, StoreError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.frameworks import AgentDependencies
from aion_core.loading.objects.loaded import LoadedObject
from aion_core.protocol.types import Task
from aion_core.state.adk.artifacts import BlobArtifacts
from aion_core.state.adk.sessions import TableSessions
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.times import milliseconds

# Ignore ADK's warnings about two experimental features, because the adapter always uses these features, and an operator
# cannot switch them off.
warnings.filterwarnings("ignore", r"\[EXPERIMENTAL\] ResumabilityConfig", UserWarning)
warnings.filterwarnings("ignore", r"\[EXPERIMENTAL\] \w*CredentialService", UserWarning)


class AdkAgent:
    """Adapter of an ADK agent or App to the `Agent` protocol. It does not change the author's object.

    The adapter keeps the plugins, compaction and resumability config of an author's App. For an agent without a
    resumability config, it makes invocations resumable.
    """

    def __init__(
        self,
        agent: BaseAgent | App | Path,
        sessions: SessionFactory,
        artifacts: ArtifactFactory | None = None,
        *,
        name: str = "",
        resume: AfterCrash = AfterCrash.FAIL,
        configuration: Mapping[str, Any] | None = None,
        module: ModuleType | None = None,
        remotes: Remotes | None = None,
    ) -> None:
        """Prepare the agent, or read it from a `root_agent.yaml` file.

        `resume` is the policy for an interrupted turn that ADK cannot resume. `configuration` has the author's settings
        from aion.yaml, which each turn finds in the session's state. A memory service or credential service in the
        agent's `module` replaces the default service. A RemoteA2aAgent may name an agent in `remotes`. Raises
        ConfigurationError for several services of one kind in the module, for an unreadable file, or for a Workflow with
        a node of its name.
        """
        if isinstance(agent, Path):
            agent = agent_from_file(agent)
        app = agent if isinstance(agent, App) else App(name="aion", root_agent=agent)
        if app.resumability_config is None:
            app = app.model_copy(update={"resumability_config": ResumabilityConfig(is_resumable=True)})
        assert app.root_agent is not None  # noqa: S101  # App requires a root agent
        if has_namesake(app.root_agent):
            raise ConfigurationError(
                f"a node of the Workflow has its name, {app.root_agent.name!r}. Rename one of them."
            )
        make_durable()
        make_stoppable()
        make_nodes_resumable()
        check_before_nodes()
        keep_questions_open()
        pass_answers_on(app.root_agent)
        self.root = app.root_agent
        """The author's root agent."""
        self._resume = resume
        self.sessions = sessions
        """Factory of the session services that have the sessions of all contexts."""
        self._setup = AdkSetup(
            name=name,
            app=app,
            root=app.root_agent,
            agent_names=agent_names(app.root_agent),
            planning_agents=planning_agents(app.root_agent),
            configuration=configuration or {},
            sessions=sessions,
            artifacts=artifacts,
            memory=_only(module, BaseMemoryService) or InMemoryMemoryService(),
            credentials=_only(module, BaseCredentialService) or SessionStateCredentialService(),
            remotes=remotes or Remotes(),
        )

    def load(self) -> None:
        """Do nothing, because the agent's code is already imported. See `Agent.load`."""

    def profile(self) -> AgentProfile:
        """Return the agent's description and its skills. See `Agent.profile`."""
        # Import late, because most processes serve no cards.
        from aion_core.agents.adk.card import agent_card

        return AgentProfile(card=agent_card(self._setup.app))

    def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        """Run one turn of the ADK agent and yield its emissions. See `Agent.run`."""
        return addressed(request, self._run(request))

    async def cancel_remote(self, call: CallToCancel) -> Canceled:
        """Cancel the task of a RemoteA2aAgent's call. See `CallsRemoteAgents`."""
        agent = remote_agent_named(self.root, call.call.agent)
        if agent is None:
            return Canceled.NEVER
        # Import late: most agents call no remote agent, and this imports the A2A client.
        from aion_core.agents.adk.remote_agents.remote_tasks import cancel_call, outside_of_turn

        context = await outside_of_turn(self._setup, agent, call.context, call.task)
        return await cancel_call(agent, call, context, now=milliseconds(SystemClock().now()))

    async def look_at_remote(self, context: ContextKey, task: TaskKey, call: RemoteCall) -> Task:
        """Return the remote task of a RemoteA2aAgent's call. See `CallsRemoteAgents`."""
        agent = remote_agent_named(self.root, call.agent)
        if agent is None:
            raise ConfigurationError(f"The agent has no RemoteA2aAgent {call.agent!r} any more.")
        from aion_core.agents.adk.remote_agents.remote_tasks import look_at_call, outside_of_turn

        return await look_at_call(agent, call, await outside_of_turn(self._setup, agent, context, task))

    async def _run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        turn = AdkTurn(request, self._setup)
        session = await turn.session()
        if self._starts_over(turn, turn.invocation(session)):
            await turn.rewind(session)
        earlier = turn.events(session)
        translator = AdkTranslator(request, turn.load_artifact, root=self.root, restarted=turn.restarts > 0)
        # Emit the session's events from earlier attempts again, because a crash may have kept some of them out of the
        # task's event log.
        for event in earlier:
            async with aclosing(translator.translate(event)) as emissions:
                async for emission in emissions:
                    yield emission
        try:
            finished = InvocationProgress(self.root, turn.invocation(session)).is_finished
            given = None if finished else await self._input(request, turn, session, earlier)
        except InvalidResumeInput as error:
            await turn.renew(session)
            yield input_required(pending_calls(session.events), error=str(error))
            return
        try:
            if given is not None:
                async with aclosing(turn.stream(given, translator)) as emissions:
                    async for emission in emissions:
                        yield emission
        except Drained:
            for emission in translator.before_pause():
                yield emission
            yield Paused()
            return
        except (LeaseLost, StoreError):
            raise
        except Exception:  # catch every exception, because the agent's code may raise any
            for emission in translator.before_failure():
                yield emission
            raise
        rejection = given.rejection if given is not None else ""
        for emission in _end(translator, turn.stored() or session.events, turn.waits, rejection):
            yield emission

    async def _input(
        self, request: TurnRequest, turn: AdkTurn, session: Session, earlier: Sequence[Event]
    ) -> RunnerInput | None:
        """Return the input for ADK's Runner: the message, the answer to a pending call, or the invocation to resume.

        Return None if the turn has already asked its question, and only has to end with it. Raises InvalidResumeInput if no call accepts its answer, and AgentFailed if the session has lost the calls.
        """
        question, pending = answered_question(request), pending_calls(session.events)
        answers = resume_contents(request, question, pending) if question is not None else Answers()
        for refused in answers.refused:
            await turn.append(session, refused)
        if earlier:
            if not answers.contents and would_skip_question(self.root, earlier, pending):
                return None
            for marker in missing_markers(self.root, turn.invocation(session)) if turn.resumes_by_id else ():
                await turn.append(session, marker)
            # Pass the message again for an App without resumability, because ADK cannot resume its invocation without
            # the message. ADK does not store the message twice.
            message = None if turn.resumes_by_id else next(event.content for event in earlier if event.author == "user")
            # Pass the answers to all pending calls, because an earlier attempt may have used only some answers.
            return RunnerInput(message, earlier[0].invocation_id, answers.contents, answers.rejection)
        if answers.contents:
            invocations = {each.event.invocation_id for each in pending}
            self._check_agents([event for event in session.events if event.invocation_id in invocations])
            return RunnerInput(answers.contents[0], then=answers.contents[1:], rejection=answers.rejection)
        if question is not None:
            raise AgentFailed(QUESTION_EXPIRED)
        for response in canceled_responses(session.events, turn.waits.kept):
            await turn.append(session, response)
        return RunnerInput(content_of(request))

    def _starts_over(self, turn: AdkTurn, events: Sequence[Event]) -> bool:
        """Return True if an interrupted turn must start over from its message.

        Raises AgentFailed if ADK cannot resume the turn and the turn must not start over either.
        """
        progress = InvocationProgress(self.root, events)
        if not events or progress.is_finished:
            return False
        self._check_agents(events)
        # Do not start over if ADK can resume the turn. ADK resumes an LLM agent even in an App without resumability.
        if progress.can_resume and (turn.resumes_by_id or isinstance(self.root, LlmAgent)):
            return False
        if self._resume is AfterCrash.FAIL:
            transferred = progress.has_transferred_workflow
            raise AgentFailed(TRANSFER_NOT_RESUMABLE if transferred else not_resumable_reason(progress))
        if turn.restarts + 1 >= MAX_RUNS:
            raise AgentFailed(TOO_MANY_RUNS)
        return True

    def _check_agents(self, events: Sequence[Event]) -> None:
        """Raise AgentFailed if the deployment no longer has every agent recorded in the session's events."""
        if missing := missing_agents(self.root, events):
            raise redeployed(missing)


def build_agent(loaded: LoadedObject, config: AgentConfig, dependencies: AgentDependencies) -> Agent:
    """Return the `Agent` of a loaded ADK agent, with encrypted sessions and with artifacts stored as blobs."""
    table, blobs, clock, cipher = dependencies.table, dependencies.blobs, dependencies.clock, dependencies.cipher
    if cipher is None:
        raise ConfigurationError(
            "An ADK agent's sessions are encrypted, and AION_KMS_KEY, the KMS key to encrypt them with, is missing."
        )
    retention = dependencies.retention
    return AdkAgent(
        loaded.agent,
        lambda fence: TableSessions(table, blobs, cipher, clock, fence=fence, retention=retention),
        lambda request: BlobArtifacts(blobs, clock, request.check_lease),
        name=config.name,
        resume=config.resume,
        configuration=config.configuration,
        module=loaded.module,
        remotes=dependencies.remotes,
    )


def _only(module: ModuleType | None, kind: Any) -> Any:
    """Return the module's only instance of the class `kind`, or None. Raises ConfigurationError for several."""
    instances = {
        id(value): name
        for name, value in (vars(module) if module is not None else {}).items()
        if isinstance(value, kind)
    }
    if len(instances) > 1:
        names = ", ".join(instances.values())
        raise ConfigurationError(f"the agent's module has several instances of {kind.__name__}: {names}. Keep one.")
    return getattr(module, next(iter(instances.values()))) if instances else None


def _end(translator: AdkTranslator, stored: Sequence[Event], waits: TurnWaits, rejection: str) -> Iterator[Emission]:
    """Yield the final emissions of a turn: the questions of the session's pending calls, or else its wait or answer.

    The questions begin with `rejection`, the reason for refusing an answer to one of several calls.
    """
    pending = [call for call in pending_calls(stored) if call.id not in waits.held]
    if pending:
        yield from translator.before_question()
        yield input_required(pending, error=rejection)
    elif (ending := waits.ending()) is not None:
        yield from translator.before_pause()
        yield ending
    else:
        yield from translator.end()
