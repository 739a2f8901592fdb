"""The page's requests as calls of the SDK's client, for servers without JSON-RPC of A2A 1.0: those of 0.3, and HTTP+JSON."""

from collections.abc import AsyncGenerator
from typing import Any

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import InvalidParamsError, MethodNotFoundError
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from aion_core.agent_client.checked import CheckedClient

STREAMS = ("SendStreamingMessage", "SubscribeToTask")
"""Methods whose answer is a stream."""


class Translation:
    """Client of one server. It takes and returns the JSON of A2A 1.0."""

    def __init__(self, http: httpx.AsyncClient, card: AgentCard) -> None:
        """Raise ValueError if the card has no interface that the SDK's client can use."""
        self._streaming, self._whole = (
            CheckedClient(ClientFactory(_config(http, streaming=streaming)).create(card)) for streaming in (True, False)
        )

    async def results(self, method: str, params: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """Yield each result of the method; only those in STREAMS have several. Raises A2AError."""
        try:
            match method:
                case "SendStreamingMessage" | "SendMessage":
                    client = self._streaming if method in STREAMS else self._whole
                    async for event in client.send_message(ParseDict(params, SendMessageRequest())):
                        yield MessageToDict(event)
                case "SubscribeToTask":
                    async for event in self._streaming.subscribe(ParseDict(params, SubscribeToTaskRequest())):
                        yield MessageToDict(event)
                case "GetTask":
                    yield MessageToDict(await self._whole.get_task(ParseDict(params, GetTaskRequest())))
                case "CancelTask":
                    yield MessageToDict(await self._whole.cancel_task(ParseDict(params, CancelTaskRequest())))
                case "ListTasks":
                    yield MessageToDict(await self._whole.list_tasks(ParseDict(params, ListTasksRequest())))
                case _:
                    raise MethodNotFoundError(f"The console cannot translate {method} for this server.")
        except NotImplementedError as error:
            raise MethodNotFoundError(f"The server has no {method}: {error}") from error
        except ParseError as error:
            raise InvalidParamsError(str(error)) from error


def _config(http: httpx.AsyncClient, *, streaming: bool) -> ClientConfig:
    bindings: list[str] = [TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON]
    return ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=bindings)
