"""Requests of ADK's `RemoteA2aAgent`, which reads a streamed artifact in a way of its own."""

from collections.abc import Collection

from aion_core.protocol.types import Message

EXTENSION = "https://google.github.io/adk-docs/a2a/a2a-extension/"
"""Extension that a `RemoteA2aAgent` with `use_legacy=False` declares."""

_MARK = "is_user_input"
"""Metadata key with which a `RemoteA2aAgent` marks the parts that its user has written, in its default mode."""


def is_from_adk(extensions: Collection[str], message: Message | None = None) -> bool:
    """Return True if a request with these extensions, and with this message if it sends one, comes from ADK."""
    return EXTENSION in extensions or (message is not None and any(_MARK in part.metadata for part in message.parts))
