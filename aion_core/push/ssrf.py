"""SSRF protection: checks of webhook URLs and of their hosts' addresses. Pure.

A client chooses the URL, but this deployment sends the request from its own network. So only allowed URLs and addresses
are called. The URL is checked at its registration and at each attempt, the addresses before each connection.
"""

import ipaddress
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from aion_core.errors import WebhookBlocked
from aion_core.push.special_addresses import Address, Network, is_metadata, is_public, leads_to_metadata

MAX_URL_CHARACTERS = 2048

_DEFAULT_PORTS = {"https": 443, "http": 80}

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(?:#.*)?")
_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""Last part of an IPv4 address in any notation accepted by resolvers (WHATWG URL, 3.5)."""

_PRIVATE_DOMAINS = frozenset(
    {"localhost", "localdomain", "local", "internal", "intranet", "lan", "home", "corp", "onion", "arpa"}
)
"""Top-level domains of private networks. Webhooks to hosts in these domains are refused."""

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class WebhookPolicy(Struct, frozen=True):
    """A deployment's rules for webhook URLs. By default it allows https to public addresses."""

    http: bool = False
    """True to allow http and any port, for development."""
    ports: frozenset[int] = frozenset({443, 8443})
    hosts: frozenset[str] = frozenset()
    """The allowed hosts; if empty, all public hosts. A leading dot allows all subdomains."""
    networks: tuple[Network, ...] = ()
    """Allowed networks besides public addresses, such as a VPC's."""
    own: frozenset[tuple[str, int]] = frozenset()
    """Hosts and ports of this service. They are refused, because a webhook to its own service could cause a loop."""
    receiver: str = ""
    """The only allowed URL of this service: a receiver that sends no requests, as in the console of `aion dev`."""

    @classmethod
    def for_service(
        cls,
        base_url: str,
        *,
        http: bool = False,
        ports: Sequence[int] = (),
        hosts: Sequence[str] = (),
        networks: Sequence[str] = (),
        receiver: str = "",
    ) -> Self:
        """Return the policy of the service at `base_url`. Raises ValueError for an invalid network or host."""
        return cls(
            http=http,
            ports=frozenset(ports) or cls().ports,
            hosts=frozenset(map(_allowed, hosts)),
            networks=tuple(ipaddress.ip_network(network) for network in networks),
            own=_own(base_url),
            receiver=receiver,
        )

    def excluding(self, base_url: str) -> Self:
        """Return this policy with one more forbidden URL, an entry point of this service; "" changes nothing."""
        return replace(self, own=self.own | _own(base_url)) if base_url else self


class WebhookTarget(Struct, frozen=True):
    """An allowed webhook URL in normal form: ASCII, and unambiguous for every URL parser."""

    scheme: str
    host: str
    port: int
    path: str
    """Path and query of the URL."""
    address: Address | None = None
    """The host's address if the URL contains an address instead of a name."""

    @property
    def authority(self) -> str:
        """Host and port for the URL and the Host header, without the scheme's default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The complete URL in normal form."""
        return f"{self.scheme}://{self.authority}{self.path}"


def check_url(url: str, policy: WebhookPolicy) -> WebhookTarget:
    """Return the webhook URL in normal form. Raises WebhookBlocked with the reason if the policy forbids it.

    The host name is not looked up here: `check_addresses` checks the addresses.
    """
    if not url:
        raise WebhookBlocked("it is missing; notifications are posted to it.")
    if len(url) > MAX_URL_CHARACTERS:
        raise WebhookBlocked(f"it has {len(url)} characters; the limit is {MAX_URL_CHARACTERS}.")
    if any(not character.isprintable() or character in ' \\"<>^`{|}' for character in url):
        # Refuse these characters, because different URL parsers read them differently.
        raise WebhookBlocked("it contains a character that is not allowed in URLs: percent-encode it.")
    whole = _URL.fullmatch(url)
    if whole is None:
        raise WebhookBlocked("it is not an absolute URL such as https://example.com/webhook.")
    scheme, authority, path = whole[1].lower(), whole[2], whole[3]
    if scheme != "https" and not (policy.http and scheme == "http"):
        raise WebhookBlocked("it must begin with https://.")
    if not path.isascii():
        raise WebhookBlocked("its path or query is not ASCII: percent-encode it.")
    if "@" in authority:
        raise WebhookBlocked("it contains a user name: put the credentials into `authentication`.")
    match = _HOST_AND_PORT.fullmatch(authority)
    if match is None:
        raise WebhookBlocked("its host or its port cannot be read.")
    host, address = _host(match[1])
    port = int(match[2]) if match[2] else _DEFAULT_PORTS[scheme]
    if not (port in policy.ports or (policy.http and 0 < port < 2**16)):
        ports = " or ".join(map(str, sorted(policy.ports)))
        raise WebhookBlocked(f"its port is {port}; it must be {ports}.")
    target = WebhookTarget(scheme, host, port, path if path.startswith("/") else f"/{path}", address)
    if ("localhost" if host.endswith(".localhost") else host, port) in policy.own and target.url != policy.receiver:
        raise WebhookBlocked("it is this service itself.")
    _check_name(target, policy)
    if address is not None:
        check_addresses(target, [host], policy)
    return target


def check_addresses(target: WebhookTarget, addresses: Sequence[str], policy: WebhookPolicy) -> Sequence[str]:
    """Return the host's addresses if the policy allows all of them. Otherwise raise WebhookBlocked.

    One forbidden address blocks the host, because DNS responses may alternate between two addresses. A host without
    addresses is blocked too.
    """
    checked = []
    for written in addresses:
        try:
            address = ipaddress.ip_address(written)
        except ValueError:
            raise WebhookBlocked("its host has an address that cannot be read.") from None
        is_own = (str(address), target.port) in policy.own and target.url != policy.receiver
        if is_own or not is_allowed_address(address, policy.networks):
            raise WebhookBlocked("its host is at an address that is not public.")
        checked.append(str(address))
    if not checked:
        raise WebhookBlocked("its host has no address.")
    return checked


def is_allowed_address(address: Address, networks: Sequence[Network] = ()) -> bool:
    """Return True if an address is public or in one of these networks. Metadata services are never allowed."""
    mapped = getattr(address, "ipv4_mapped", None) or address
    if getattr(address, "scope_id", None) or mapped.is_unspecified or is_metadata(address):
        return False
    if any(address in network for network in networks):
        return not leads_to_metadata(address)
    return is_public(address)


def _allowed(written: str) -> str:
    """Return an allowed host in normal form, as those of webhooks are. Raises ValueError."""
    dot = "." if written.startswith(".") else ""
    try:
        return dot + _host(written.removeprefix("."))[0]
    except WebhookBlocked as blocked:
        raise ValueError(f"{written!r}: {blocked}") from None


def _own(base_url: str) -> frozenset[tuple[str, int]]:
    """Return the hosts and the port of this server, to which no webhook may point. A loopback host has several names."""
    host, port = _host_and_port(base_url)
    return frozenset((name, port) for name in (_LOOPBACK if host in _LOOPBACK else [host]))


def _host_and_port(base_url: str) -> tuple[str, int]:
    scheme, _, rest = base_url.partition("://")
    match = _HOST_AND_PORT.match(rest.partition("/")[0])
    host, port = match.groups() if match else ("", None)
    with suppress(WebhookBlocked):
        host = _host(host)[0]
    return host, int(port) if port else _DEFAULT_PORTS.get(scheme.lower(), 0)


def _host(written: str) -> tuple[str, Address | None]:
    """Return the host in normal form, and the address if the host is an address instead of a name."""
    if written.startswith("["):
        try:
            inner = ipaddress.IPv6Address(written[1:-1] if written.endswith("]") else "")
        except ValueError:
            raise WebhookBlocked("its host is not an IPv6 address.") from None
        if inner.scope_id:
            raise WebhookBlocked("its address has a zone: it is valid on one link only.")
        return str(inner), inner
    name = written.lower() if written.isascii() else _ascii(written)
    if name.endswith("."):
        raise WebhookBlocked("its host ends with a dot: remove the dot.")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            address = ipaddress.IPv4Address(name)
        except ValueError:
            raise WebhookBlocked("its host is an IPv4 address, but not in the form of four decimal numbers.") from None
        return str(address), address
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise WebhookBlocked("its host is not a valid host name.")
    return name, None


def _ascii(name: str) -> str:
    # Import only for internationalised names, because the tables of idna load slowly.
    import idna

    try:
        return idna.encode(name, uts46=True, std3_rules=True, transitional=False).decode()
    except idna.IDNAError:
        raise WebhookBlocked("its host is not a valid internationalised name.") from None


def _check_name(target: WebhookTarget, policy: WebhookPolicy) -> None:
    host = target.host
    if policy.hosts:
        if not any(host == name or (name.startswith(".") and host.endswith(name)) for name in policy.hosts):
            raise WebhookBlocked("its host is not in the list of allowed hosts.")
        return
    labels = host.split(".")
    if target.address is None and not policy.http and (len(labels) == 1 or labels[-1] in _PRIVATE_DOMAINS):
        raise WebhookBlocked("its host is not public.")
