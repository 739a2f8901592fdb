"""What is posted to a webhook: the headers that its config asks for, and the body in its version's words. Pure."""

import base64
import json
from collections.abc import Mapping
from datetime import datetime

from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToDict

from aion_core.ports import Notification, PushConfig, PushVersion, WebhookRequest
from aion_core.push import signing
from aion_core.push.registration import api_key_header

_MEDIA_TYPES = {PushVersion.V1: "application/a2a+json", PushVersion.V03: "application/json"}

TOKEN_HEADER = "X-A2A-Notification-Token"  # noqa: S105  # its name


def render(config: PushConfig, notification: Notification, *, at: datetime) -> WebhookRequest:
    """Return what is posted at this time; see `ports.Render`."""
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
    """Return the event in v1.0 (spec 4.3.3), and the task with it in v0.3, as that version's SDKs post and read it."""
    if version is PushVersion.V03:
        # Only where somebody is told so: it takes its time to load.
        from a2a.compat.v0_3 import conversions

        assert notification.snapshot is not None  # noqa: S101  # the port's promise
        said = conversions.to_compat_task(notification.snapshot).model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
    else:
        said = MessageToDict(to_stream_response(notification.event))
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()


def _authentication(config: PushConfig) -> Mapping[str, str]:
    """Return the header by which the client said that its webhook knows us; none where it gave no credentials."""
    if not config.credentials:
        return {}
    if header := api_key_header(config.scheme, config.credentials):
        return dict([header])
    credentials = config.credentials
    if config.scheme.lower() == "basic" and ":" in credentials:
        # User and password as they are: base64 has no colon.
        credentials = base64.b64encode(credentials.encode()).decode()
    return {"Authorization": f"{config.scheme} {credentials}"}
