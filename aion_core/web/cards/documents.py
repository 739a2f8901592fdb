"""Documents of an agent card, for clients of v1.0 only and of both versions."""

import re
from typing import Any

from starlette.requests import Request

from aion_core.protocol.card import document_v1
from aion_core.protocol.types import AgentCard
from aion_core.web.request.versions import VERSION


def reads_v1_only(request: Request) -> bool:
    """Return True if the request states A2A version 1. A client that states no version may use v0.3 (A2A 3.6.2)."""
    stated = request.headers.get(VERSION) or request.query_params.get(VERSION) or ""
    return re.fullmatch(r"1(\.\d+){0,2}", stated) is not None


def card_document(card: AgentCard, *, v1_only: bool) -> dict[str, Any]:
    """Return the card as JSON, for clients of v1.0 only or for clients of both versions."""
    if v1_only:
        return document_v1(card)
    # Import late, so that clients of v1.0 do not wait for the models of v0.3.
    from aion_core.protocol.card_v03 import document

    return document(card)
