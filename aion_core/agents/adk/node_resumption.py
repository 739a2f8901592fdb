"""Resumption of a Workflow's nodes: a node whose process was lost goes on after its last stored event, or runs again.

By itself, ADK takes some interrupted nodes for ended ones, and the Workflow ends without their answers.
"""

from collections.abc import Sequence
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.context import Context
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.flows.llm_flows import base_llm_flow
from google.adk.workflow import _llm_agent_wrapper
from google.adk.workflow.utils._replay_manager import ReplayManager

from aion_core.agents.adk.waits.turn_waits import turn_waits

COMPLETED = 3
"""Value of ADK's `NodeStatus.COMPLETED`."""

_UNFINISHED = "aion:unfinished"
"""Error code of a node that has stored events but no end: ADK runs a node with an error again."""

_PATCHED = "_aion_resumes_nodes"


def make_nodes_resumable() -> None:
    """Let ADK's Workflows resume their interrupted nodes. A repeated call has no effect."""
    if getattr(ReplayManager, _PATCHED, False):
        return
    scan, prepare = ReplayManager.scan_workflow_events, _llm_agent_wrapper.prepare_llm_agent_input
    flow: Any = base_llm_flow
    decide = flow.decide_step_resume

    def scan_workflow_events(self: Any, ctx: Context) -> Any:
        states, sequence = scan(self, ctx)
        invocation = ctx._invocation_context
        if invocation.is_resumable:
            events = [event for event in invocation.session.events if event.invocation_id == invocation.invocation_id]
            ended = ended_runs(ctx.event_author, ctx.node_path, events)
            for run, state in states.items():
                has_result = state.output is not None or state.route is not None or state.transfer_to_agent is not None
                if run not in ended and not has_result:
                    state.finished_after_resume = False
                    if not state.interrupt_ids:
                        state.error_code = state.error_code or _UNFINISHED
        return states, sequence

    def prepare_llm_agent_input(agent: LlmAgent, ctx: Context, node_input: object) -> Event | None:
        given, waits = prepare(agent, ctx, node_input), turn_waits.get()
        if given is not None and waits is not None and given.node_info.path not in waits.nodes:
            waits.nodes.add(given.node_info.path)
            _put_before_own(given, ctx)
        return given

    def decide_step_resume(invocation_context: InvocationContext, tools_dict: dict[str, Any]) -> Any:
        waits = turn_waits.get()
        is_node = waits is not None and waits.is_workflow
        return decide(_up_to_last_content(invocation_context) if is_node else invocation_context, tools_dict)

    setattr(ReplayManager, _PATCHED, True)
    ReplayManager.scan_workflow_events = scan_workflow_events  # type: ignore[method-assign]
    _llm_agent_wrapper.prepare_llm_agent_input = prepare_llm_agent_input
    flow.decide_step_resume = decide_step_resume


def ended_runs(workflow: str, path: str, events: Sequence[Event]) -> set[str]:
    """Return the runs of a Workflow's nodes, as `name@run`, that its checkpoints record as ended.

    `path` is the node path of the Workflow. A checkpoint names no runs: it tells of each node's last one so far.
    """
    last: dict[str, str] = {}
    ended: set[str] = set()
    for event in events:
        if event.node_info.path.startswith(f"{path}/"):
            run = event.node_info.path.removeprefix(f"{path}/").split("/")[0]
            last[run.rpartition("@")[0]] = run
        elif event.author == workflow:
            nodes = (event.actions.agent_state or {}).get("nodes", {})
            ended |= {last[name] for name, node in nodes.items() if name in last and node.get("status") == COMPLETED}
    return ended


def _put_before_own(given: Event, ctx: Context) -> None:
    """Put the input of an LLM agent before what the agent has stored of this run: the model answered it."""
    events, invocation = ctx.session.events, ctx._invocation_context.invocation_id
    for index, event in enumerate(events):
        if event.invocation_id == invocation and event.node_info.path == given.node_info.path and event is not given:
            events.remove(given)
            events.insert(index, given)
            return


def _up_to_last_content(ctx: InvocationContext) -> InvocationContext:
    """Return the context without the session's last events that have no content, such as a Workflow's checkpoints.

    ADK makes calls without a response again only if no event follows them.
    """
    events = ctx.session.events
    count = len(events)
    while count and events[count - 1].content is None:
        count -= 1
    if count == len(events):
        return ctx
    return ctx.model_copy(update={"session": ctx.session.model_copy(update={"events": events[:count]})})
