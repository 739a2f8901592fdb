"""Addresses that are not public: IANA's special-purpose blocks, cloud metadata services, IPv4 inside IPv6. Pure.

`ipaddress.is_global` is not used, because its list of blocks differs between versions of Python.
"""

import ipaddress
from collections.abc import Iterator

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

SPECIAL_PURPOSE: tuple[Network, ...] = tuple(
    map(
        ipaddress.ip_network,
        (
            # IANA IPv4 Special-Purpose Address Registry (RFC 6890), without blocks contained in other blocks.
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast addresses, which have their own IANA registry
            "240.0.0.0/4",
            # IANA IPv6 Special-Purpose Address Registry, only the blocks within 2000::/3.
            "2001::/23",
            "2001:db8::/32",
            "2002::/16",
            "2620:4f:8000::/48",
            "3fff::/20",
        ),
    )
)

_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
"""IANA assigns public IPv6 addresses from this block only."""

METADATA: tuple[Network, ...] = tuple(
    map(
        ipaddress.ip_network,
        (
            "169.254.0.0/16",
            "100.100.100.200/32",
            "168.63.129.16/32",
            "192.0.0.192/32",
            "fe80::/10",
            "fd00:ec2::/32",
            "fd20:ce::/64",
            "fd00:42::/64",
        ),
    )
)
"""Metadata services of clouds, with the credentials of instances, containers and functions."""

_TRANSLATION_LENGTHS = (32, 40, 48, 56, 64, 96)
"""Lengths of the prefix before the IPv4 address in a translated IPv6 address (RFC 6052, 2.2)."""


def is_public(address: Address) -> bool:
    """Return True if the address belongs to the public internet."""
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    return not any(address in network for network in SPECIAL_PURPOSE)


def is_metadata(address: Address) -> bool:
    """Return True if the address is in METADATA. For IPv4 inside IPv6, see `leads_to_metadata`."""
    return any(address in network for network in METADATA)


def leads_to_metadata(address: Address) -> bool:
    """Return True if a translator or tunnel could send packets for this address to a metadata service."""
    return isinstance(address, ipaddress.IPv6Address) and any(map(is_metadata, ipv4_inside(address)))


def ipv4_inside(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    """Yield the IPv4 addresses that a translator or tunnel may extract from an IPv6 address."""
    # Skip the ninth byte, which RFC 6052 reserves. The prefix of 96 bits covers also IPv4-mapped, IPv4-compatible and
    # ISATAP addresses.
    around = address.packed[:8] + address.packed[9:]
    for length in _TRANSLATION_LENGTHS:
        start = length // 8
        yield ipaddress.IPv4Address(address.packed[12:] if length == 96 else around[start : start + 4])
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
