"""What must not lie in the environment: read from Secrets Manager or SSM, or, in development, from a file."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from aion_core.errors import ConfigurationError
from aion_core.protocol.card import KEYS_PATH
from aion_core.protocol.types import AgentCard
from aion_core.settings import Settings
from aion_core.web.cards import Sign, unsigned

if TYPE_CHECKING:
    from aion_core.protocol.keys import CardKey


def secret_or_file(secret: str, file: str, variable: str) -> tuple[str, str]:
    """Return the text of the secret, or of the file where there is none, and what to call it.

    Raises ConfigurationError.
    """
    if secret:
        from aion_core.aws.secrets import Secrets

        return Secrets().read(secret, variable), f"the secret {secret} ({variable})"
    try:
        return Path(file).read_text(encoding="utf-8"), f"{file} ({variable})"
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} ({variable}) cannot be read: {error}.") from error


def card_key(settings: Settings) -> "CardKey | None":
    """Return the key that signs the cards, where there is one; raises ConfigurationError that names where it lies.

    It is read once: a process whose cards are signed with one key must not show another, which is in force when all
    processes have begun anew, by a deployment.
    """
    if not settings.card_key_file and not settings.card_key_secret:
        return None
    from aion_core.protocol.keys import signing_key

    where = "AION_CARD_KEY_SECRET" if settings.card_key_secret else "AION_CARD_KEY_FILE"
    text, source = secret_or_file(settings.card_key_secret, settings.card_key_file, where)
    return signing_key(text, source, key_id=settings.card_key_id, url=settings.card_key_url)


def card_signer(key: "CardKey | None") -> Sign:
    """Return what signs the cards with the key, or does not where there is none."""
    if key is None:
        return unsigned
    from aion_core.protocol.signing import sign_card

    def sign(card: AgentCard, base_url: str) -> AgentCard:
        # Where nobody has put the public key elsewhere, this server shows it.
        return sign_card(card, key if key.url else replace(key, url=f"{base_url}{KEYS_PATH}"))

    return sign
