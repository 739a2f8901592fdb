"""HTTP request of a push notification: headers by its push config, and a body in the config's A2A version. Pure."""

import base64
import json
from collections.abc import Mapping
from datetime import datetime

from a2a.utils.proto_utils import to_stream_response

from aion_core.engine.push_config import PushConfig, PushVersion
from aion_core.protocol.message_json import to_json
from aion_core.protocol.v03_json import v03_json
from aion_core.push import signing
from aion_core.push.registration import api_key_header
from aion_core.push.webhook import Notification, WebhookRequest

_MEDIA_TYPES = {PushVersion.V1: "application/a2a+json", PushVersion.V03: "application/json"}

TOKEN_HEADER = "X-A2A-Notification-Token"  # noqa: S105  # a header's name, no password


def render(config: PushConfig, notification: Notification, *, at: datetime) -> WebhookRequest:
    """Return the HTTP request to post the notification at this time; see `Render`."""
    body = _body(config.version, notification)
    headers = {
        "Content-Type": _MEDIA_TYPES[config.version],
        "A2A-Version": config.version.value,
        **_authentication(config),
        **signing.headers(notification.id, at, body, signing.in_use(config, at)),
    }
    if config.token and not signing.is_key(config.token):
        headers[TOKEN_HEADER] = config.token
    return WebhookRequest(headers, body)


def _body(version: PushVersion, notification: Notification) -> bytes:
    """Return the JSON body: in v1.0 the event (A2A 4.3.3), in v0.3 the task after the event."""
    if version is PushVersion.V03:
        # Import late, because the conversions load slowly and only receivers of v0.3 need them.
        from a2a.compat.v0_3 import conversions

        assert notification.snapshot is not None  # noqa: S101  # `Notification` has one for v0.3
        content = v03_json(conversions.to_compat_task(notification.snapshot))
    else:
        content = to_json(to_stream_response(notification.event))
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


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
