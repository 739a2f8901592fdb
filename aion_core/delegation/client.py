"""Client of one remote agent, with the requests that a call needs."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol

from aion_core.protocol.types import (
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageRequest,
    StreamResponse,
    Task,
)

if TYPE_CHECKING:
    from a2a.client.client import ClientCallContext
    from a2a.types import CancelTaskRequest, SubscribeToTaskRequest


class RemoteClient(Protocol):
    """Client of a remote agent: the official SDK's `Client`, or that of a remote by name, which first reads its card.

    The methods raise A2AError. They raise NotImplementedError for what the remote agent does not offer.
    """

    def send_message(
        self, request: SendMessageRequest, *, context: "ClientCallContext | None" = None
    ) -> AsyncGenerator[StreamResponse, None]:
        """Send a message and yield the responses."""
        ...

    def subscribe(
        self, request: "SubscribeToTaskRequest", *, context: "ClientCallContext | None" = None
    ) -> AsyncGenerator[StreamResponse, None]:
        """Yield the responses of a task that has begun before."""
        ...

    async def get_task(self, request: GetTaskRequest, *, context: "ClientCallContext | None" = None) -> Task:
        """Return a task."""
        ...

    async def list_tasks(
        self, request: ListTasksRequest, *, context: "ClientCallContext | None" = None
    ) -> ListTasksResponse:
        """Return the tasks of a context."""
        ...

    async def cancel_task(self, request: "CancelTaskRequest", *, context: "ClientCallContext | None" = None) -> Task:
        """Cancel a task."""
        ...
