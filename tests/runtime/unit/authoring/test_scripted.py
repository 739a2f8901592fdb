"""Scripted models of LangGraph and ADK: a call of the first tool, then the answer in words."""

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.function_tool import FunctionTool
from google.genai import types
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool

from aion.adk.scripted import ScriptedLlm
from aion.langgraph.scripted import ScriptedChatModel


def shout(text: str, times: int = 1) -> str:
    """Shout a text."""
    return text.upper() * times


def unused() -> None:
    """Do nothing."""


def test_scripted_model_of_langgraph_calls_first_tool() -> None:
    model = ScriptedChatModel().bind_tools([tool(shout), tool(unused)])
    [call] = model.invoke([HumanMessage("hello")]).tool_calls
    assert (call["name"], call["args"]) == ("shout", {"text": "hello"})
    [call] = ScriptedChatModel().bind_tools([tool(unused)]).invoke("hello").tool_calls
    assert (call["name"], call["args"]) == ("unused", {})


def test_scripted_model_of_langgraph_streams_answer() -> None:
    model = ScriptedChatModel(answer="It says {result}.").bind_tools([tool(shout)])
    chunks = [chunk.text for chunk in model.stream([HumanMessage("a"), ToolMessage("A B", tool_call_id="call-1")])]
    assert [chunk for chunk in chunks if chunk] == ["It", " says", " A", " B."]


def test_scripted_model_of_langgraph_without_tools_answers_message() -> None:
    assert ScriptedChatModel(answer="You said {result}.").bind_tools([]).invoke("hello").text == "You said hello."


async def told(parts: list[types.Part], *functions: object, stream: bool = False) -> list[types.Part]:
    request = LlmRequest(contents=[types.Content(role="user", parts=parts)])
    request.append_tools([FunctionTool(function) for function in functions])  # type: ignore[arg-type]
    model = ScriptedLlm(answer="It says {result}.")
    return [
        part
        async for response in model.generate_content_async(request, stream=stream)
        if response.content
        for part in response.content.parts or ()
    ]


async def test_scripted_model_of_adk_calls_first_tool() -> None:
    [part] = await told([types.Part(text="hello")], shout, unused)
    assert part.function_call is not None
    assert (part.function_call.name, part.function_call.args) == ("shout", {"text": "hello"})


@pytest.mark.parametrize("stream", [False, True])
async def test_scripted_model_of_adk_streams_answer(stream: bool) -> None:
    result = types.Part.from_function_response(name="shout", response={"result": "A B"})
    texts = [part.text for part in await told([result], shout, stream=stream)]
    assert texts == [*(["It", " says", " A", " B."] if stream else []), "It says A B."]


async def test_scripted_model_of_adk_without_tools_answers_message() -> None:
    [part] = await told([types.Part(text="hello")])
    assert part.text == "It says hello."
