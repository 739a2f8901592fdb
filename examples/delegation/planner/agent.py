"""LangGraph graph that plans a day with the help of another agent, by A2A. No key, and no network but to that agent."""

import asyncio
import os
from collections.abc import Generator
from typing import Any

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest, Task, TaskState
from a2a.utils.errors import A2AError
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.session import Session
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from aion.shared.types import A2AInbox

PLANS = {"sunny": "Go to the beach", "snowy": "Go skiing", "rainy": "Visit a museum"}
UNFINISHED = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)


class AwsSignature(httpx.Auth):
    """Authentication of httpx that signs each request with the credentials of the function's role (AWS SigV4)."""

    requires_request_body = True

    def __init__(self, region: str) -> None:
        self.region, self.session = region, Session()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """Sign the request's method, URL, host and body for API Gateway."""
        signed = AWSRequest(request.method, str(request.url), headers={"host": request.url.netloc.decode()})
        signed.data = request.content
        SigV4Auth(self.session.get_credentials(), "execute-api", self.region).add_auth(signed)
        request.headers.update(dict(signed.headers))
        yield request


class PlannerState(MessagesState):
    """State of the graph: its messages, and the A2A message that it received with its task."""

    a2a_inbox: A2AInbox | None


async def plan(state: PlannerState) -> dict[str, Any]:
    """Ask the weather agent, pass its questions on to the client, and plan the day by the weather."""
    inbox, region = state["a2a_inbox"], os.environ.get("WEATHER_REGION")
    async with httpx.AsyncClient(auth=AwsSignature(region) if region else None, timeout=300) as http:
        try:
            card = await A2ACardResolver(http, os.environ["WEATHER_URL"]).get_agent_card()
            client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
            # Use the same ids in each run of this node, because the node runs again from its first line after an answer
            # or a crash. The weather agent recognises a repeated messageId and returns the task of the first message.
            context, number = inbox.task.id, 0
            task = await ask(client, state["messages"][-1].text, context_id=context, message_id=f"{context}-0")
            while task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
                number += 1
                ids = {"context_id": context, "task_id": task.id, "message_id": f"{context}-{number}"}
                task = await ask(client, interrupt(text_of(task)), **ids)
        except A2AError as error:
            return {"messages": [AIMessage(f"The weather agent does not answer: {error}")]}
    if task.status.state != TaskState.TASK_STATE_COMPLETED:
        return {"messages": [AIMessage("The weather agent has no answer.")]}
    weather = text_of(task)
    return {"messages": [AIMessage(f"{weather} {next(PLANS[word] for word in PLANS if word in weather)}.")]}


async def ask(client: Client, text: str, **ids: str) -> Task:
    """Send a message to the weather agent; return the task when it has ended or asks a question."""
    message = Message(role=Role.ROLE_USER, parts=[Part(text=text)], **ids)
    (response,) = [each async for each in client.send_message(SendMessageRequest(message=message))]
    task = response.task
    while task.status.state in UNFINISHED:  # poll, because a request ends after some minutes at most
        await asyncio.sleep(1)
        task = await client.get_task(GetTaskRequest(id=task.id))
    return task


def text_of(task: Task) -> str:
    """Return the text of the task's answer or question."""
    return "".join(part.text for part in task.status.message.parts)


graph = StateGraph(PlannerState).add_node("plan", plan).add_edge(START, "plan")
