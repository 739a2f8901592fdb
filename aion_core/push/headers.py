"""HTTP headers of a post to a webhook. Pure."""

import base64
from collections.abc import Mapping
from datetime import datetime

from aion_core.engine.push_config import PushConfig, PushVersion
from aion_core.push import signing
from aion_core.push.registration import api_key_header

_MEDIA_TYPES = {PushVersion.V1: "application/a2a+json", PushVersion.V03: "application/json"}

TOKEN_HEADER = "X-A2A-Notification-Token"  # noqa: S105  # a header's name, no password


def notification_headers(config: PushConfig, notification_id: str, body: bytes, at: datetime) -> dict[str, str]:
    """Return the headers of a notification posted at this time: its version, credentials, signature and token."""
    headers = {
        "Content-Type": _MEDIA_TYPES[config.version],
        "A2A-Version": config.version.value,
        **_authentication(config),
        **signing.headers(notification_id, at, body, signing.in_use(config, at)),
    }
    if config.token and not signing.is_key(config.token):
        headers[TOKEN_HEADER] = config.token
    return headers


def client_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a notification with those of the HTTP client, which uses one connection per post."""
    return {
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "User-Agent": "aion",
        **headers,
        "Connection": "close",
    }


def _authentication(config: PushConfig) -> Mapping[str, str]:
    """Return the HTTP header with the credentials from the client's config; empty without credentials."""
    if not config.credentials:
        return {}
    if header := api_key_header(config.scheme, config.credentials):
        return dict([header])
    credentials = config.credentials
    if config.scheme.lower() == "basic" and ":" in credentials:
        # Encode a plain user and password. The colon between them marks them as plain, because base64 has no colon.
        credentials = base64.b64encode(credentials.encode()).decode()
    return {"Authorization": f"{config.scheme} {credentials}"}
