"""Request for a callback, by which a remote agent reports the end of a task (push notifications, A2A 4.3)."""

import logging
from typing import Protocol

from a2a.types import TaskPushNotificationConfig
from a2a.utils.errors import A2AError, InvalidParamsError, PushNotificationNotSupportedError, UnsupportedOperationError

from aion_core.engine.remote_calls.callbacks import new_token
from aion_core.protocol.types import AgentCard

logger = logging.getLogger(__name__)

CONFIG_ID = "aion-callback"
"""Id of the push config at the remote agent. A further message of the same remote task replaces the config."""

_REFUSALS = (PushNotificationNotSupportedError, UnsupportedOperationError, InvalidParamsError)


class HasCard(Protocol):
    """Give the client whose card says whether the remote agent sends push notifications."""

    async def card(self) -> AgentCard:
        """Return the agent's card. Raises A2AError."""
        ...


class CallbackRequest:
    """Request for a callback with one message. Its token is known to this process only."""

    def __init__(self, client: HasCard, remote: str, url: str) -> None:
        """`url` is the address of this server's callbacks."""
        self._client, self._remote, self._url = client, remote, url
        self._token, self.token_hash = new_token()

    async def config(self) -> TaskPushNotificationConfig | None:
        """Return the push config for the message; None if the remote agent's card promises no push notifications.

        Raises A2AError if the card can't be read.
        """
        card = await self._client.card()
        if not card.capabilities.push_notifications:
            logger.warning(
                "The remote agent %s has `callback: on`, but its card has no capability pushNotifications: its tasks are polled.",
                self._remote,
            )
            return None
        return TaskPushNotificationConfig(id=CONFIG_ID, url=self._url, token=self._token)

    def is_refused(self, error: A2AError) -> bool:
        """Return True if the remote agent may accept the message without its push config. Log why it has refused it."""
        if not isinstance(error, _REFUSALS):
            return False
        logger.warning(
            "The remote agent %s has refused a message with a callback to %s, and gets it without one: %s",
            self._remote,
            self._url,
            error,
        )
        return True
