"""How a card is shown: with the address at which it is read, and signed as that address has it."""

import logging
from collections.abc import Callable

from aion_core.protocol.card import moved
from aion_core.protocol.types import AgentCard

logger = logging.getLogger(__name__)

ADDRESSES = 8
"""At how many addresses a card is kept ready: a deployment has one to three."""

Sign = Callable[[AgentCard, str], AgentCard]
"""Returns the card signed, for readers of this base URL: that of the key may be below it."""


def unsigned(card: AgentCard, base_url: str) -> AgentCard:
    """Return the card as it is."""
    return card


class Showing:
    """Shows a server's cards."""

    def __init__(self, base_url: str = "", *, follows_front: bool = False, sign: Sign = unsigned) -> None:
        """`base_url`: the one that the cards are made with.

        With `follows_front`, where nobody has configured it, it gives way to the address that AWS's front says.
        """
        self.base_url = base_url
        self._follows_front, self._sign = follows_front, sign

    def address(self, front: str) -> str:
        """Return the base URL that a card names when it is read at this front; "" is none that is known."""
        if self._follows_front and not front:
            logger.warning("The event names no address, and AION_BASE_URL is empty: the card names %s.", self.base_url)
        return front if self._follows_front and front else self.base_url

    def shown(self, card: AgentCard, address: str) -> AgentCard:
        """Return the card as it is read at the address."""
        return self._sign(moved(card, self.base_url, address), address)
