"""What of ADK the adapter leans on that its documentation does not promise: a new version that changes it is met here."""

import inspect

from google.adk.agents import LlmAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.events import Event
from google.adk.events import _abort_events as abort_events
from google.adk.events._interrupts import extract_event_interrupt_ids
from google.adk.flows.llm_flows.tools import _confirmation
from google.adk.runners import Runner
from google.adk.utils import _function_call_names as names
from google.adk.workflow._node_status import NodeStatus
from google.genai import types as genai

from aion_core.agents.adk import interrupts, thread
from aion_core.agents.adk.turn import TURN
from tests.support.adk import DyingSessions, ask, saying, served
from tests.support.service import http, parts


def test_the_context_is_made_by_a_method_that_takes_what_ours_passes_on() -> None:
    """R86: ADK calls it an extension point, and keeps its signature."""
    assert list(inspect.signature(Runner._new_invocation_context).parameters) == [
        "self",
        "session",
        "invocation_id",
        "new_message",
        "live_request_queue",
        "run_config",
    ]


async def test_every_event_of_a_turn_bears_its_turn() -> None:
    """Hence it is known what a turn has left in a session, though an answer goes on with another turn's invocation."""
    sessions = DyingSessions()
    async with http(parts(served(LlmAgent(name="root", model=saying(["Hi."])), sessions)).app()) as client:
        await ask(client, "SendMessage")
    turns = {(event.custom_metadata or {}).get(TURN) for event in sessions.stored()}
    assert len(turns) == 1
    assert None not in turns
    assert {event.invocation_id for event in sessions.stored()} == turns, "a turn that asks nothing is its invocation"


def test_the_names_by_which_adk_asks() -> None:
    """Section 3: ids of what waits are in long_running_tool_ids."""
    assert names.REQUEST_EUC_FUNCTION_CALL_NAME == interrupts.CREDENTIAL
    assert names.REQUEST_CONFIRMATION_FUNCTION_CALL_NAME == "adk_request_confirmation"
    assert names.REQUEST_INPUT_FUNCTION_CALL_NAME == "adk_request_input"
    call = genai.Part(function_call=genai.FunctionCall(id="c", name="wait"))
    asks = Event(author="a", content=genai.Content(parts=[call]), long_running_tool_ids={"c"})
    assert extract_event_interrupt_ids(asks) == {each.id for each in interrupts.pending_calls([asks])} == {"c"}
    assert _confirmation._parse_tool_confirmation({"confirmed": True, "payload": 1}).confirmed


def test_a_seal_is_known_for_one() -> None:
    """Hence a call that is answered "canceled" does not route the next message to whom it was answered."""
    assert abort_events._INVOCATION_ABORTED == interrupts.ABORTED
    call = genai.Part(function_call=genai.FunctionCall(id="c", name="wait"))
    (seal,) = interrupts.canceled_responses([Event(author="a", invocation_id="i", content=genai.Content(parts=[call]))])
    assert abort_events._is_abort_event(seal)


def test_a_completed_node_is_3() -> None:
    assert NodeStatus.COMPLETED.value == thread._COMPLETED


def test_an_app_says_nothing_of_resumability_until_its_author_does() -> None:
    """Hence None is for us to fill in, and False is not."""
    root = LlmAgent(name="root", model=saying())
    assert App(name="app", root_agent=root).resumability_config is None
    assert ResumabilityConfig().is_resumable is False
