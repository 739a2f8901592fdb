"""Which webhook may be called: its URL, and the addresses that its name has. Pure.

Security rules R1 and R2. A webhook's URL is a stranger's word: whoever registers one chooses where this deployment's
own network posts to. So what may be called is said, and the rest is refused. A URL is checked when it is registered
and at each try; the addresses of its name at each try, by whoever then connects to the very address that was checked.
"""

import ipaddress
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

from aion_core.errors import WebhookBlocked

MAX_URL_CHARACTERS = 2048

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_DEFAULT_PORTS = {"https": 443, "http": 80}

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(?:#.*)?")
_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""The last label of what a resolver reads as an IPv4 address, in whatever way it is written (WHATWG URL, 3.5)."""

_INWARD = frozenset(
    {"localhost", "localdomain", "local", "internal", "intranet", "lan", "home", "corp", "onion", "arpa"}
)
"""Last labels of names that are no public host's."""

_NEVER: tuple[Network, ...] = tuple(
    ipaddress.ip_network(network)
    for network in (
        # Where clouds keep an instance's, a container's or a function's own credentials.
        "169.254.0.0/16",
        "fe80::/10",
        "fd00:ec2::/32",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
        "0.0.0.0/32",
        "::/128",
    )
)
"""What no setting allows."""

_NOT_PUBLIC: tuple[Network, ...] = tuple(
    ipaddress.ip_network(network)
    for network in (
        # Python calls these global, or has done so until lately.
        "192.88.99.0/24",
        "2001::/32",  # Teredo, with an IPv4 address inside
        "2001:10::/28",
        "2001:20::/28",
        "2001:db8::/32",
        "2002::/16",  # 6to4, with an IPv4 address inside
        "3fff::/20",
    )
)

_UNICAST = ipaddress.ip_network("2000::/3")
"""All of IPv6 that is anybody's on the internet: no mapped or translated IPv4 address, nothing of a site or a link."""


@dataclass(frozen=True, slots=True)
class WebhookPolicy:
    """What a deployment lets webhooks be, beyond https to public addresses, or short of it."""

    http: bool = False
    """Whether http may be spoken too, and to any port: for development."""
    ports: frozenset[int] = frozenset({443, 8443})
    hosts: frozenset[str] = frozenset()
    """Where some are named, only these names may be called: a name that begins with a dot stands for all below it."""
    networks: tuple[Network, ...] = ()
    """Addresses that may be called though they are not public, such as those of a VPC."""
    own: frozenset[tuple[str, int]] = frozenset()
    """Hosts and ports of this very service: a webhook there would be a loop."""

    @classmethod
    def beside(
        cls,
        base_url: str,
        *,
        http: bool = False,
        ports: Sequence[int] = (),
        hosts: Sequence[str] = (),
        networks: Sequence[str] = (),
    ) -> Self:
        """Return what a service allows that is reached at `base_url`; raises ValueError for what is no network."""
        return cls(
            http=http,
            ports=frozenset(ports) or cls().ports,
            hosts=frozenset(host.lower() for host in hosts),
            networks=tuple(ipaddress.ip_network(network) for network in networks),
            own=frozenset({_host_and_port(base_url)}),
        )

    def and_beside(self, base_url: str) -> Self:
        """Return what a service allows that is reached at this URL too; "" is none."""
        return replace(self, own=self.own | {_host_and_port(base_url)}) if base_url else self


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """A URL that may be called, as it is called: all of it is ASCII, and nothing of it means two things."""

    scheme: str
    host: str
    port: int
    path: str
    """With its query."""
    address: Address | None = None
    """Where the URL names an address instead of a host."""

    @property
    def authority(self) -> str:
        """The host as a URL and the Host header have it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole of it."""
        return f"{self.scheme}://{self.authority}{self.path}"


def check_url(url: str, allowed: WebhookPolicy) -> WebhookTarget:
    """Return what the URL names; raises WebhookBlocked for one that may not be called, and says why.

    A name is only looked at: that its addresses may be called is for `check_addresses` to say.
    """
    if not url:
        raise WebhookBlocked("it is missing: it is where notifications are to be posted to.")
    if len(url) > MAX_URL_CHARACTERS:
        raise WebhookBlocked(f"it has {len(url)} characters, and may have {MAX_URL_CHARACTERS}.")
    if any(not character.isprintable() or character in ' \\"<>^`{|}' for character in url):
        # Each of these is read in more than one way, or left out by some who read it.
        raise WebhookBlocked("it holds a character that no URL has as it is: percent-encode it.")
    whole = _URL.fullmatch(url)
    if whole is None:
        raise WebhookBlocked("it is no absolute URL, such as https://example.com/webhook.")
    scheme, authority, path = whole[1].lower(), whole[2], whole[3]
    if scheme != "https" and not (allowed.http and scheme == "http"):
        raise WebhookBlocked("it has to begin with https://.")
    if not path.isascii():
        raise WebhookBlocked("its path or query is not ASCII: percent-encode it.")
    if "@" in authority:
        raise WebhookBlocked("it holds a user name: say by `authentication` how the webhook knows this server.")
    said = _HOST_AND_PORT.fullmatch(authority)
    if said is None:
        raise WebhookBlocked("its host or its port cannot be read.")
    host, address = _host(said[1])
    port = int(said[2]) if said[2] else _DEFAULT_PORTS[scheme]
    if not (port in allowed.ports or (allowed.http and 0 < port < 2**16)):
        ports = " or ".join(map(str, sorted(allowed.ports)))
        raise WebhookBlocked(f"its port is {port}, and may be {ports}.")
    target = WebhookTarget(scheme, host, port, path if path.startswith("/") else f"/{path}", address)
    if (host, port) in allowed.own:
        raise WebhookBlocked("it is this service itself.")
    _check_name(target, allowed)
    if address is not None:
        check_addresses(target, [host], allowed)
    return target


def check_addresses(target: WebhookTarget, addresses: Sequence[str], allowed: WebhookPolicy) -> Sequence[str]:
    """Return the addresses, of which each may be called; raises WebhookBlocked where one may not, or there is none.

    One that may not be called is enough: of two that alternate, the next look-up may bring the other.
    """
    checked = []
    for written in addresses:
        try:
            address = ipaddress.ip_address(written)
        except ValueError:
            raise WebhookBlocked("its host has an address that cannot be read.") from None
        if not may_be_called(address, allowed.networks) or (str(address), target.port) in allowed.own:
            raise WebhookBlocked("its host is at an address that is not public.")
        checked.append(str(address))
    if not checked:
        raise WebhookBlocked("its host has no address.")
    return checked


def may_be_called(address: Address, networks: Sequence[Network] = ()) -> bool:
    """Tell whether the address is public, or in one of these networks."""
    if getattr(address, "scope_id", None) or any(address in network for network in _NEVER):
        return False
    if any(address in network for network in networks):
        return True
    if isinstance(address, ipaddress.IPv6Address) and address not in _UNICAST:
        return False
    # A group is called global too.
    return address.is_global and not address.is_multicast and not any(address in network for network in _NOT_PUBLIC)


def _host_and_port(base_url: str) -> tuple[str, int]:
    scheme, _, rest = base_url.partition("://")
    said = _HOST_AND_PORT.match(rest.partition("/")[0])
    host, port = said.groups() if said else ("", None)
    with suppress(WebhookBlocked):
        host = _host(host)[0]
    return host, int(port) if port else _DEFAULT_PORTS.get(scheme.lower(), 0)


def _host(written: str) -> tuple[str, Address | None]:
    """Return the host, and its address where it is one, in the one way that each is written."""
    if written.startswith("["):
        try:
            inner = ipaddress.IPv6Address(written[1:-1])
        except ValueError:
            raise WebhookBlocked("its host is no IPv6 address.") from None
        if inner.scope_id:
            raise WebhookBlocked("its address has a zone, and so is of one link only.")
        return str(inner), inner
    name = written.lower() if written.isascii() else _ascii(written)
    if name.endswith("."):
        raise WebhookBlocked("its host ends with a dot: leave the dot out.")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            address = ipaddress.IPv4Address(name)
        except ValueError:
            raise WebhookBlocked("its host is an address that is not written as four decimal numbers.") from None
        return str(address), address
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise WebhookBlocked("its host is no host's name.")
    return name, None


def _ascii(name: str) -> str:
    # Only for names that need it: its tables take their time to load.
    import idna

    try:
        return idna.encode(name, uts46=True, std3_rules=True, transitional=False).decode()
    except idna.IDNAError:
        raise WebhookBlocked("its host is no internationalised name.") from None


def _check_name(target: WebhookTarget, allowed: WebhookPolicy) -> None:
    host = target.host
    if allowed.hosts:
        if not any(host == name or (name.startswith(".") and host.endswith(name)) for name in allowed.hosts):
            raise WebhookBlocked("its host is none of those that this deployment calls.")
        return
    labels = host.split(".")
    if target.address is None and not allowed.http and (len(labels) == 1 or labels[-1] in _INWARD):
        raise WebhookBlocked("its host is no public one.")
