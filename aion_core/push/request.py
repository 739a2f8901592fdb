"""HTTP request of a push notification: headers by its config, and a body in the config's A2A version. Pure."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from a2a.utils.proto_utils import to_stream_response
from msgspec import Struct

from aion_core.engine.push_config import PushConfig, PushVersion
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Event, Task
from aion_core.protocol.v03_json import v03_json
from aion_core.push.headers import notification_headers
from aion_core.table.keys import TaskKey


class Notification(Struct, frozen=True):
    """One event for one push config. It is the same at each attempt to post it."""

    id: str
    """Identifies the task, event and config, so that a receiver can detect repeats."""
    task: TaskKey
    generation: int
    event: Event
    snapshot: Task | None = None
    """The task as of this event, for receivers of version 0.3; None for other receivers."""


class WebhookRequest(Struct, frozen=True):
    """Headers and body of a post to a webhook. Both may contain secrets, so the repr omits them."""

    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return "WebhookRequest()"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # `rich` prints the result of this method instead of the result of Struct's method, which has the secrets.
        return []


Render = Callable[[PushConfig, Notification, datetime], WebhookRequest]
"""Pure function such as `render`. The simulation has its own, since its receivers read other headers."""


def render(config: PushConfig, notification: Notification, at: datetime) -> WebhookRequest:
    """Return the HTTP request to post at this time. Only timestamp and signature differ between attempts."""
    body = _body(config.version, notification)
    return WebhookRequest(notification_headers(config, notification.id, body, at), body)


def _body(version: PushVersion, notification: Notification) -> bytes:
    """Return the JSON body: in v1.0 the event (A2A 4.3.3), in v0.3 the task after the event."""
    if version is PushVersion.V03:
        # Import late, because the conversions load slowly and only receivers of v0.3 need them.
        from a2a.compat.v0_3 import conversions

        assert notification.snapshot is not None  # noqa: S101  # `Notification` has one for v0.3
        content = v03_json(conversions.to_compat_task(notification.snapshot))
    else:
        content = to_json(to_stream_response(notification.event))
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
