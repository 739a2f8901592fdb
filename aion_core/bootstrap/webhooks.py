"""Composition of the allowed webhook addresses, for the registration of push configs and for their delivery."""

from aion_core.errors import ConfigurationError
from aion_core.push.ssrf import WebhookPolicy
from aion_core.settings import DEFAULT_BASE_URL, Settings


def webhook_policy(settings: Settings) -> WebhookPolicy:
    """Return the policy of allowed webhook addresses from the settings. Raises ConfigurationError for an invalid host."""
    try:
        return WebhookPolicy.for_service(
            settings.base_url or DEFAULT_BASE_URL,
            http=settings.push_http,
            ports=settings.push_ports,
            hosts=settings.push_hosts,
            networks=settings.push_networks,
            receiver=settings.push_receiver,
        )
    except ValueError as error:
        raise ConfigurationError(f"AION_PUSH_HOSTS contains {error}") from None
