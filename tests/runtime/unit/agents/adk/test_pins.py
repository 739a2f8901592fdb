"""Undocumented ADK behaviour used by the adapter; a new ADK version may change it."""

import inspect

import pytest
from google.adk.a2a.converters import to_adk_event
from google.adk.agents import LlmAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.events import Event
from google.adk.events import _abort_events as abort_events
from google.adk.events._interrupts import extract_event_interrupt_ids
from google.adk.flows.llm_flows.base_llm_flow import BaseLlmFlow
from google.adk.flows.llm_flows.context import _contents
from google.adk.flows.llm_flows.tools import _caller, _confirmation
from google.adk.runners import Runner
from google.adk.utils import _function_call_names as names
from google.adk.workflow._errors import WorkflowDataError
from google.adk.workflow._node_status import NodeStatus
from google.adk.workflow.utils import _rehydration_utils as rehydration
from google.adk.workflow.utils._workflow_hitl_utils import confirmation_interrupt_id
from google.genai import types as genai

from aion_core.agents.adk import canceled_calls, node_resumption, pending_calls
from aion_core.agents.adk.rewind import TURN
from aion_core.agents.adk.waits.pauses import FRAMEWORK
from tests.support.adk import CrashingSessions, ask, scripted_model, served
from tests.support.service import http, parts


def test_adk_invocation_context_method_keeps_its_signature() -> None:
    """The adapter overrides `_new_invocation_context`, which ADK documents as an extension point."""
    assert list(inspect.signature(Runner._new_invocation_context).parameters) == [
        "self",
        "session",
        "invocation_id",
        "new_message",
        "live_request_queue",
        "run_config",
    ]


async def test_adk_events_carry_turn_id_in_metadata() -> None:
    """The events also have the id of their turn, because the reply to a question continues an earlier turn's invocation."""
    sessions = CrashingSessions()
    async with http(parts(served(LlmAgent(name="root", model=scripted_model(["Hi."])), sessions)).app()) as client:
        await ask(client, "SendMessage")
    turns = {(event.custom_metadata or {}).get(TURN) for event in sessions.stored()}
    assert len(turns) == 1
    assert None not in turns
    assert {event.invocation_id for event in sessions.stored()} == turns, (
        "a new turn and its invocation have the same id"
    )


def test_our_names_of_interrupt_calls_match_adk() -> None:
    """The adapter recognizes requests to the client by these names, and pending calls by `long_running_tool_ids`."""
    assert names.REQUEST_EUC_FUNCTION_CALL_NAME == pending_calls.CREDENTIAL
    assert names.REQUEST_CONFIRMATION_FUNCTION_CALL_NAME == "adk_request_confirmation"
    assert names.REQUEST_INPUT_FUNCTION_CALL_NAME == "adk_request_input"
    assert to_adk_event.MOCK_FUNCTION_CALL_FOR_REQUIRED_USER_AUTH == pending_calls.REMOTE_CREDENTIAL
    assert confirmation_interrupt_id("root@1") == f"{pending_calls.NODE_CONFIRMATION}root@1"
    call = genai.Part(function_call=genai.FunctionCall(id="c", name="wait"))
    event = Event(author="a", content=genai.Content(parts=[call]), long_running_tool_ids={"c"})
    assert extract_event_interrupt_ids(event) == {each.id for each in pending_calls.pending_calls([event])} == {"c"}
    assert _confirmation._parse_tool_confirmation({"confirmed": True, "payload": 1}).confirmed


def test_adk_validates_answers_by_schema() -> None:
    """Answer with a text: ADK reads it as JSON if it can, and validates it by the schema."""
    assert rehydration._unwrap_response({"result": "42"}) == 42
    assert rehydration._unwrap_response({"result": '"42"'}) == "42"
    with pytest.raises(WorkflowDataError):
        rehydration._validate_resume_response(42, {"type": "string"})


def test_adk_method_cleanup_root_task_has_expected_parameters() -> None:
    assert list(inspect.signature(Runner._cleanup_root_task).parameters) == ["self", "task", "node_name"]


def test_adk_recognizes_our_canceled_response_as_abort() -> None:
    """ADK recognizes our "canceled" response as an abort, so it does not send that agent the next message."""
    assert abort_events._INVOCATION_ABORTED == pending_calls.ABORTED
    call = genai.Part(function_call=genai.FunctionCall(id="c", name="wait"))
    (response,) = canceled_calls.canceled_responses(
        [Event(author="a", invocation_id="i", content=genai.Content(parts=[call]))]
    )
    assert abort_events._is_abort_event(response)


def test_adk_completed_status_equals_our_constant() -> None:
    assert NodeStatus.COMPLETED.value == node_resumption.COMPLETED


def test_adk_resumability_config_defaults_to_none() -> None:
    """The adapter sets this config only if it is None, so an author's False must not look like None."""
    root = LlmAgent(name="root", model=scripted_model())
    assert App(name="app", root_agent=root).resumability_config is None
    assert ResumabilityConfig().is_resumable is False


def test_adk_makes_tool_calls_of_message_where_adapter_stops_them() -> None:
    """The adapter wraps the method, and defers the response of a tool that waits."""
    method = BaseLlmFlow._postprocess_handle_function_calls_async
    names = ["self", "invocation_context", "function_call_event", "llm_request"]
    assert list(inspect.signature(method).parameters) == names
    assert "tool.is_long_running or tool._defers_response" in inspect.getsource(_caller)


def test_adk_keeps_framework_calls_from_model() -> None:
    """The adapter's pauses, and the questions of remote agents that tools call, have this name."""
    call = genai.Part(function_call=genai.FunctionCall(id="c", name=FRAMEWORK))
    assert _contents._is_adk_framework_event(Event(author="a", content=genai.Content(parts=[call])))
