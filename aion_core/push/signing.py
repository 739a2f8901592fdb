"""Signatures of push notifications by the Standard Webhooks specification. Pure.

See https://www.standardwebhooks.com. docs/decisions/0012 explains why a config's token is the signing key.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from secrets import token_bytes

from standardwebhooks import Webhook

from aion_core.engine.push_config import PushConfig
from aion_core.errors import InvalidMessage

PREFIX = "whsec_"
"""Prefix of a token that is only a signing key: it is never sent to the webhook."""

_MIN_KEY_BYTES, _MAX_KEY_BYTES = 24, 64
"""Smallest and largest length of a key by Standard Webhooks."""


def new_token() -> str:
    """Return a random signing key of 256 bits, for a config without a token."""
    return PREFIX + base64.b64encode(token_bytes(32)).decode()


def is_key(token: str) -> bool:
    """Return True if the token is a signing key and must stay secret."""
    return token.startswith(PREFIX)


def check_token(token: str) -> None:
    """Raise InvalidMessage for a token with the prefix of a signing key but without a valid key."""
    if not is_key(token):
        return
    try:
        key = base64.b64decode(token.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not _MIN_KEY_BYTES <= len(key) <= _MAX_KEY_BYTES:
        raise InvalidMessage(
            f"token begins with {PREFIX}: {_MIN_KEY_BYTES} to {_MAX_KEY_BYTES} random bytes in base64 must follow, the "
            "key of the signature. A token without this prefix may be any text.",
            field="token",
        )


def headers(notification_id: str, at: datetime, body: bytes, secrets: Sequence[str]) -> Mapping[str, str]:
    """Return the three Standard Webhooks headers for a notification posted at this time.

    The signature header has one signature per secret, newest first: during a rotation the receiver may know only one of
    the secrets.
    """
    # Convert the time to UTC, because the standardwebhooks library ignores the time zone of the timestamp.
    at = at.astimezone(UTC)
    text = body.decode()
    return {
        "webhook-id": notification_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(Webhook(_key(secret)).sign(notification_id, at, text) for secret in secrets),
    }


def in_use(config: PushConfig, at: datetime) -> Sequence[str]:
    """Return the config's secrets that sign at this time: the newest, and until `older_until` also the previous one."""
    over = config.older_until is not None and at >= config.older_until
    return config.secrets[:1] if over else config.secrets


def _key(secret: str) -> str | bytes:
    return secret if is_key(secret) else secret.encode()
