"""What a client may register as a webhook, what is kept of it, and what it reads back. Pure.

Whatever of it goes into a header is looked at here, so that no credential can end one header and begin another.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from a2a.types.a2a_pb2 import AuthenticationInfo, TaskPushNotificationConfig

from aion_core import log
from aion_core.errors import InvalidMessage, WebhookBlocked
from aion_core.ports import PushConfig, PushEvents, PushVersion
from aion_core.protocol.message_rules import ID_RULE, is_id
from aion_core.push import signing
from aion_core.push.ssrf import WebhookPolicy, check_url

MAX_VALUE_CHARACTERS = 4096
"""Of a token, or of credentials: a JWT with many claims has less."""

OVERLAP = timedelta(days=1)
"""For how long the token before the newest signs beside it."""

API_KEY = "apikey"
"""The scheme, in whatever case, whose credentials may name a header: `X-Api-Key: …`."""

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
"""What HTTP calls a token: the name of a scheme, or of a header (RFC 9110, 5.6.2)."""

_OURS = re.compile(
    r"(?:content|webhook|a2a|x-a2a|proxy|x-forwarded|sec|access-control|x-amz|x-amzn|cf)-.*|host|connection|te|trailer|"
    r"transfer-encoding|upgrade|keep-alive|expect|accept.*|user-agent|cookie|forwarded|via|date|range|if-.*|traceparent|"
    r"tracestate|x-http-method.*|x-method-override|x-original-.*|x-rewrite-url|x-real-ip|x-client-ip|true-client-ip",
    re.IGNORECASE,
)
"""Headers that are HTTP's, a proxy's, or this server's to say."""


def check_config(config: TaskPushNotificationConfig, allowed: WebhookPolicy, *, before: str = "") -> None:
    """Raise InvalidMessage for a config that cannot be used; `before` is where in the request it stands."""
    log.keep_out(config.token, config.authentication.credentials)
    try:
        if config.id and not is_id(config.id):
            raise InvalidMessage(f"id has to be {ID_RULE}.", field="id")
        _check_url(config.url, allowed)
        _check_value(config.token, "token")
        signing.check_token(config.token)
        _check_authentication(config.authentication)
    except InvalidMessage as error:
        raise InvalidMessage(f"{before}{error}", field=f"{before}{error.field}") from error


def to_keep(
    config: TaskPushNotificationConfig,
    config_id: str,
    *,
    version: PushVersion,
    events: PushEvents,
    at: datetime,
    before: PushConfig | None = None,
) -> PushConfig:
    """Return what is kept of a config that comes at this time; `before` is the one whose place it takes.

    One that comes without a token gets a key for one. Where the token changes, the old one signs beside the new for a
    day, so that a receiver is free to change when it likes; a repeat of the same config makes that no longer.
    """
    token = config.token
    if not token:
        token = before.token if before and signing.is_key(before.token) else signing.new_token()
    older: Sequence[str] = ()
    older_until = before.older_until if before else None
    if before is not None:
        older = [secret for secret in signing.in_use(before, at) if secret != token][:1]
        if token != before.token:
            older_until = at + OVERLAP
    return PushConfig(
        id=config_id,
        url=config.url,
        token=token,
        scheme=config.authentication.scheme,
        credentials=config.authentication.credentials,
        secrets=(token, *older),
        older_until=older_until if older else None,
        version=version,
        events=events,
    )


def as_given(kept: PushConfig, task_id: str, tenant: str = "") -> TaskPushNotificationConfig:
    """Return the config as its owner reads it: as it was given, with what the server has added."""
    config = TaskPushNotificationConfig(tenant=tenant, id=kept.id, task_id=task_id, url=kept.url, token=kept.token)
    if kept.scheme:
        config.authentication.scheme, config.authentication.credentials = kept.scheme, kept.credentials
    return config


def api_key_header(scheme: str, credentials: str) -> tuple[str, str] | None:
    """Return the header that the credentials of an API key name, and its value; None where they name none."""
    name, colon, value = credentials.partition(":")
    if scheme.lower() != API_KEY or not colon:
        return None
    return name.strip(), value.strip()


def _check_url(url: str, allowed: WebhookPolicy) -> None:
    try:
        check_url(url, allowed)
    except WebhookBlocked as error:
        raise InvalidMessage(f"url cannot be called: {error}", field="url") from error


def _check_authentication(authentication: AuthenticationInfo) -> None:
    if authentication.scheme and not _TOKEN.fullmatch(authentication.scheme):
        raise InvalidMessage(
            'authentication.scheme has to be the name of an HTTP authentication scheme, such as "Bearer".',
            field="authentication.scheme",
        )
    if authentication.credentials and not authentication.scheme:
        raise InvalidMessage(
            'authentication has credentials and no scheme: say of what, such as "Bearer".',
            field="authentication.scheme",
        )
    _check_value(authentication.credentials, "authentication.credentials")
    header = api_key_header(authentication.scheme, authentication.credentials)
    if header is not None and (not _TOKEN.fullmatch(header[0]) or _OURS.fullmatch(header[0]) or not header[1]):
        raise InvalidMessage(
            "authentication.credentials of an API key have to be the key, or a header of your own and the key, as in "
            '"X-Api-Key: …".',
            field="authentication.credentials",
        )


def _check_value(value: str, field: str) -> None:
    if len(value) > MAX_VALUE_CHARACTERS:
        raise InvalidMessage(f"{field} has more than {MAX_VALUE_CHARACTERS} characters.", field=field)
    if not (value.isascii() and value.isprintable() and value == value.strip()):
        raise InvalidMessage(
            f"{field} has to be printable ASCII on one line, without spaces around it: it becomes a header.",
            field=field,
        )
