"""Push notification config (A2A 4.3): a client's webhook for a task."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from aion_core.engine.agent_options import PushEvents

MAX_PUSH_CONFIGS = 10
"""Limit of push configs per task."""


class PushVersion(StrEnum):
    """Version of A2A with which a push config was registered. Its notifications have this version."""

    V1 = "1.0"
    V03 = "0.3"


class PushConfig(Struct, frozen=True):
    """A client's webhook for a task, with its credentials. The repr omits the secrets."""

    id: str
    """Id of the config, unique within its task. The server generates one if the client gives no id."""
    url: str
    """URL of the webhook. Its query may hold a secret."""
    token: str = ""
    """The client's token, sent in a header of each notification unless it is a signing key."""
    scheme: str = ""
    """The HTTP authentication scheme (`Bearer`, `Basic`, …); "" without authentication."""
    credentials: str = ""
    secrets: tuple[str, ...] = ()
    """The secrets that sign notifications, the newest first; two during a rotation."""
    older_until: datetime | None = None
    """End of a rotation: afterwards only the newest secret signs. None outside of a rotation."""
    version: PushVersion = PushVersion.V1
    events: PushEvents = PushEvents.STATUS
    """The kinds of events to post, as configured for the agent in aion.yaml."""

    def __repr__(self) -> str:
        return f"PushConfig({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # `rich` prints the result of this method instead of the result of Struct's method, which has the secrets.
        return [(name, getattr(self, name)) for name in ("id", "scheme", "older_until", "version", "events")]
