"""Publication of agent cards with the URL of the request and a signature."""

import logging
from collections.abc import Callable, Mapping, Sequence

from aion_core.protocol.card import with_skill_modes, with_url
from aion_core.protocol.types import AgentCard

logger = logging.getLogger(__name__)

Sign = Callable[[AgentCard, str], AgentCard]
"""Function from a card and its base URL to the signed card. The URL of the public key may depend on the base URL."""


def unsigned(card: AgentCard, base_url: str) -> AgentCard:
    """Return the card unchanged, in a deployment without a signing key."""
    return card


class CardPublisher:
    """Publisher of agent cards: puts the URL below which a card is requested into it, and signs it."""

    def __init__(
        self,
        base_url: str = "",
        *,
        follows_entrypoint: bool = False,
        sign: Sign = unsigned,
        keys: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """`base_url` is the configured base URL, and `keys` are the public keys (JWK) of the signatures.

        With `follows_entrypoint`, a published card has the URL of the API Gateway or Function URL that received the
        request, if AWS's event contains the URL.
        """
        self.base_url, self.keys = base_url, keys
        self._follows_entrypoint, self._sign = follows_entrypoint, sign

    def base_url_for(self, entrypoint_url: str) -> str:
        """Return the card's base URL for a request to this HTTP entry point; "" means an unknown entry point."""
        if self._follows_entrypoint and not entrypoint_url:
            logger.warning(
                "AWS's event has no domain, and AION_BASE_URL is empty: the card has the URL %s.", self.base_url
            )
        return entrypoint_url if self._follows_entrypoint and entrypoint_url else self.base_url

    def publish(self, card: AgentCard, base_url: str, prefix: str) -> AgentCard:
        """Return the signed card of the agent at the path `prefix` below `base_url`; "" is the root."""
        return self._sign(with_skill_modes(with_url(card, f"{base_url}{prefix}/")), base_url)
