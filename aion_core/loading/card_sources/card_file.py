"""A card in a file, such as the `agent.json` of an ADK agent's folder, its card for `adk api_server --a2a`."""

import json
import logging
from pathlib import Path

from google.protobuf.json_format import ParseDict, ParseError

from aion_core.protocol.types import AgentCard

logger = logging.getLogger(__name__)

_OF_THE_SERVER = ("security", "securitySchemes", "securityRequirements", "supportedInterfaces", "signatures")
"""Keys that only the server can set. Some of them have another form in A2A 0.3."""


def read_card_file(file: Path) -> AgentCard:
    """Return the card in a file, of A2A 1.0 or 0.3; an empty card if the file does not exist.

    A file that is no card is named in the log, because the author expects it to be used.
    """
    if not file.is_file():
        return AgentCard()
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it has to be an object")
        own = {key: value for key, value in content.items() if key not in _OF_THE_SERVER}
        return ParseDict(own, AgentCard(), ignore_unknown_fields=True)
    except (OSError, ParseError, ValueError) as error:
        logger.warning("%s is not used for the agent's card: %s.", file, str(error).rstrip("."))
        return AgentCard()
