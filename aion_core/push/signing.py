"""The signature of a notification, by Standard Webhooks: which key a config's token is, and the headers. Pure.

https://www.standardwebhooks.com; docs/decisions/0012 says why the token is the key.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from secrets import token_bytes

from standardwebhooks import Webhook

from aion_core.errors import InvalidMessage
from aion_core.ports import PushConfig

PREFIX = "whsec_"
"""What a token begins with that is a key and nothing else: it is never sent to the webhook."""

_MIN_KEY_BYTES, _MAX_KEY_BYTES = 24, 64
"""Of a key, as Standard Webhooks has it."""


def new_token() -> str:
    """Return a token for a config that came without one: a key of 256 random bits."""
    return PREFIX + base64.b64encode(token_bytes(32)).decode()


def is_key(token: str) -> bool:
    """Tell whether the token is a key, and so nobody's to see."""
    return token.startswith(PREFIX)


def check_token(token: str) -> None:
    """Raise InvalidMessage for a token that says it is a key, and is none."""
    if not is_key(token):
        return
    try:
        key = base64.b64decode(token.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not _MIN_KEY_BYTES <= len(key) <= _MAX_KEY_BYTES:
        raise InvalidMessage(
            f"token begins with {PREFIX}, and so has to go on with {_MIN_KEY_BYTES} to {_MAX_KEY_BYTES} random bytes in "
            "base64: they are the key of the signature. Another token may be any text.",
            field="token",
        )


def headers(notification_id: str, at: datetime, body: bytes, secrets: Sequence[str]) -> Mapping[str, str]:
    """Return the three headers of a notification that is posted at this time.

    There is a signature for each secret, the newest first: while one takes another's place, a receiver may know either.
    """
    # The library leaves out what the time is of.
    at = at.astimezone(UTC)
    text = body.decode()
    return {
        "webhook-id": notification_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(Webhook(_key(secret)).sign(notification_id, at, text) for secret in secrets),
    }


def in_use(config: PushConfig, at: datetime) -> Sequence[str]:
    """Return what is signed with at this time: the newest secret, and the one before it as long as that is said to be."""
    over = config.older_until is not None and at >= config.older_until
    return config.secrets[:1] if over else config.secrets


def _key(secret: str) -> str | bytes:
    return secret if is_key(secret) else secret.encode()
