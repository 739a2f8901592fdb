"""Secrets of the server, from Secrets Manager, SSM or, in development, a file."""

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from aion_core.errors import ConfigurationError
from aion_core.protocol.card import KEYS_PATH
from aion_core.protocol.types import AgentCard
from aion_core.settings import Settings
from aion_core.web.cards.publication import Sign, unsigned

if TYPE_CHECKING:
    from aion_core.protocol.keys import CardKey


def secret_or_file(secret: str, file: str, variable: str) -> tuple[str, str]:
    """Return the text of the secret, or of the file if no secret is named, and its source's name for error messages.

    Raises ConfigurationError if the text cannot be read.
    """
    if secret:
        from aion_core.aws.secrets import Secrets

        return Secrets().read(secret, variable), f"the secret {secret} ({variable})"
    try:
        return Path(file).read_text(encoding="utf-8"), f"{file} ({variable})"
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"Cannot read {file} ({variable}): {error}.") from error


def card_key(settings: Settings) -> "CardKey | None":
    """Return the key that signs agent cards; None if none is configured. Raises ConfigurationError with its source.

    Call it once per process: otherwise a changed key could sign cards while the published key set contains the old key.
    A new key takes effect with the next deployment, in all processes.
    """
    if not settings.card_key_file and not settings.card_key_secret:
        return None
    from aion_core.protocol.keys import signing_key

    where = "AION_CARD_KEY_SECRET" if settings.card_key_secret else "AION_CARD_KEY_FILE"
    text, source = secret_or_file(settings.card_key_secret, settings.card_key_file, where)
    return signing_key(text, source, key_id=settings.card_key_id, url=settings.card_key_url)


def card_signer(key: "CardKey | None") -> Sign:
    """Return a function that signs cards with the key, or leaves them unsigned without a key."""
    if key is None:
        return unsigned
    from aion_core.protocol.signing import sign_card

    def sign(card: AgentCard, base_url: str) -> AgentCard:
        # If the settings name no URL of the key set, use the URL under which this server publishes its own key.
        return sign_card(card, key if key.url else replace(key, url=f"{base_url}{KEYS_PATH}"))

    return sign
