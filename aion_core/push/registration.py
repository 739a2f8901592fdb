"""Validation of webhook configs, and their conversion to the stored form and back. Pure.

Tokens and credentials with characters that could inject headers are refused.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from a2a.types.a2a_pb2 import AuthenticationInfo, TaskPushNotificationConfig

from aion_core import log
from aion_core.engine.agent_options import PushEvents
from aion_core.engine.push_config import PushConfig, PushVersion
from aion_core.errors import InvalidMessage, WebhookBlocked
from aion_core.protocol.ids import ID_RULE, is_id
from aion_core.push import signing
from aion_core.push.ssrf import WebhookPolicy, check_url

MAX_VALUE_CHARACTERS = 4096
"""Maximum length of a token or credentials. It is long enough for a JWT with many claims."""

OVERLAP = timedelta(days=1)
"""Time after a change of the token in which the previous token signs too."""

API_KEY = "apikey"
"""Authentication scheme, in any letter case, for credentials of the form `X-Api-Key: …`."""

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
"""Valid name of an authentication scheme or header (a token of RFC 9110, 5.6.2)."""

_RESERVED_HEADERS = re.compile(
    r"(?:content|webhook|a2a|x-a2a|proxy|x-forwarded|sec|access-control|x-amz|x-amzn|cf)-.*|host|connection|te|trailer|"
    r"transfer-encoding|upgrade|keep-alive|expect|accept.*|user-agent|cookie2?|set-cookie2?|forwarded|via|date|range|if-.*|traceparent|"
    r"tracestate|x-http-method.*|x-method-override|x-original-.*|x-rewrite-url|x-real-ip|x-client-ip|true-client-ip|"
    r".*metadata.*|x-aws-.*|x-google-.*|x-identity-header",
    re.IGNORECASE,
)
"""Headers reserved for HTTP, proxies, clouds' metadata services and this server. A client's API key must not use them."""


def check_config(config: TaskPushNotificationConfig, policy: WebhookPolicy, *, before: str = "") -> None:
    """Raise InvalidMessage for an invalid push config. `before` is the path prefix of its fields in the error."""
    log.keep_out(config.token, config.authentication.credentials)
    try:
        if config.id and not is_id(config.id):
            raise InvalidMessage(f"id must be {ID_RULE}.", field="id")
        _check_url(config.url, policy)
        _check_value(config.token, "token")
        signing.check_token(config.token)
        _check_authentication(config.authentication)
    except InvalidMessage as error:
        raise InvalidMessage(f"{before}{error}", field=f"{before}{error.field}") from error


def stored_config(
    config: TaskPushNotificationConfig,
    config_id: str,
    *,
    version: PushVersion,
    events: PushEvents,
    at: datetime,
    before: PushConfig | None = None,
) -> PushConfig:
    """Return the push config to store for a client's config. `before` is the stored config that it replaces.

    A config without a token gets a signing key as its token. If the token changes, the previous token also signs for
    another day, so that the receiver has time to change it. A repeat of the same config does not extend this time.
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


def client_config(stored: PushConfig, task_id: str, tenant: str = "") -> TaskPushNotificationConfig:
    """Convert a stored push config to A2A's message. It has the id and token that the server may have generated."""
    config = TaskPushNotificationConfig(
        tenant=tenant, id=stored.id, task_id=task_id, url=stored.url, token=stored.token
    )
    if stored.scheme:
        config.authentication.scheme, config.authentication.credentials = stored.scheme, stored.credentials
    return config


def api_key_header(scheme: str, credentials: str) -> tuple[str, str] | None:
    """Return the header name and value from an API key's credentials; None for credentials in another form."""
    name, colon, value = credentials.partition(":")
    if scheme.lower() != API_KEY or not colon:
        return None
    return name.strip(), value.strip()


def _check_url(url: str, policy: WebhookPolicy) -> None:
    try:
        check_url(url, policy)
    except WebhookBlocked as error:
        raise InvalidMessage(f"url cannot be called: {error}", field="url") from error


def _check_authentication(authentication: AuthenticationInfo) -> None:
    if authentication.scheme and not _TOKEN.fullmatch(authentication.scheme):
        raise InvalidMessage(
            'authentication.scheme must be the name of an HTTP authentication scheme, such as "Bearer".',
            field="authentication.scheme",
        )
    if authentication.credentials and not authentication.scheme:
        raise InvalidMessage(
            'authentication has credentials but no scheme, such as "Bearer".',
            field="authentication.scheme",
        )
    _check_value(authentication.credentials, "authentication.credentials")
    header = api_key_header(authentication.scheme, authentication.credentials)
    if header is not None and (not _TOKEN.fullmatch(header[0]) or _is_reserved(header[0]) or not header[1]):
        raise InvalidMessage(
            "authentication.credentials of an API key must be the key, or a header and the key, such as "
            '"X-Api-Key: …".',
            field="authentication.credentials",
        )


def _is_reserved(header: str) -> bool:
    # Refuse a reserved header with underscores too, because CGI and WSGI receivers read them as hyphens.
    return _RESERVED_HEADERS.fullmatch(header.replace("_", "-")) is not None


def _check_value(value: str, field: str) -> None:
    if len(value) > MAX_VALUE_CHARACTERS:
        raise InvalidMessage(f"{field} has more than {MAX_VALUE_CHARACTERS} characters.", field=field)
    if not (value.isascii() and value.isprintable() and value == value.strip()):
        raise InvalidMessage(
            f"{field} must be printable ASCII on one line, without spaces around it: it becomes a header.",
            field=field,
        )
