"""Special-purpose addresses against IANA's registries of 2026, on every version of Python."""

import csv
import ipaddress
from pathlib import Path

from aion_core.push.special_addresses import METADATA, SPECIAL_PURPOSE, Network, is_public
from aion_core.push.ssrf import is_allowed_address
from tests.support.rows import each_row

REGISTRY = Path(__file__).with_name("special_purpose_addresses.csv")
"""Blocks of the registries iana-ipv4-special-registry and iana-ipv6-special-registry, of July 2026."""

EVERYWHERE = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
"""Allowed networks in the widest setting of an operator."""


def blocks() -> list[Network]:
    with REGISTRY.open(encoding="utf-8", newline="") as file:
        return [ipaddress.ip_network(row["Address Block"]) for row in csv.DictReader(file)]


@each_row("block", blocks())
def test_special_purpose_address_block_is_refused(block: Network) -> None:
    step = max(1, block.num_addresses // 7)
    addresses = [block[place] for place in range(0, block.num_addresses, step)]
    assert [address for address in [*addresses, block[-1]] if is_allowed_address(address)] == []


def test_refused_address_blocks_are_in_iana_registry() -> None:
    multicast = ipaddress.ip_network("224.0.0.0/4")
    assert set(SPECIAL_PURPOSE) - {multicast} <= set(blocks())


@each_row("block", SPECIAL_PURPOSE)
def test_addresses_next_to_refused_ip_range_are_public(block: Network) -> None:
    """Check the addresses just before and after each range, unless they are in another refused range."""
    kind = type(block[0])
    for number in (int(block[0]) - 1, int(block[-1]) + 1):
        if 0 < number < 2**block.max_prefixlen:
            neighbour = kind(number)
            assert is_public(neighbour) or any(neighbour in other for other in SPECIAL_PURPOSE)


@each_row(
    "address", ["1.1.1.1", "192.0.1.1", "223.255.255.255", "2606:4700::1111", "2001:4860:4860::8888", "2c0f:fb50::1"]
)
def test_public_address_is_allowed(address: str) -> None:
    assert is_allowed_address(ipaddress.ip_address(address))


def notations(address: ipaddress.IPv4Address) -> list[str]:
    """Return IPv6 addresses that a host, a translator or a tunnel converts to this IPv4 address."""
    dotted, bits = str(address), int(address)
    high, low = f"{bits >> 16:x}", f"{bits & 0xFFFF:x}"
    inverted = bits ^ 0xFFFFFFFF
    octets = [f"{octet:02x}" for octet in address.packed]
    return [
        f"::ffff:{dotted}",
        f"::{dotted}",
        f"::ffff:0:{dotted}",
        f"64:ff9b::{dotted}",
        f"64:ff9b:1::{dotted}",
        f"64:ff9b:1:{high}:00{octets[2]}:{octets[3]}00::",
        f"2002:{high}:{low}::",
        f"2002:{high}:{low}::1",
        f"2001:0:{high}:{low}::",
        f"2001:0:4136:e378:8000:63bf:{inverted >> 16:x}:{inverted & 0xFFFF:x}",
        f"fe80::5efe:{dotted}",
        f"fd00:1::5efe:{dotted}",
        f"2a01:64::{dotted}",
        f"2a01:64:{high}:{low}::",
        f"2a01:64:00{octets[0]}:{octets[1]}{octets[2]}:00{octets[3]}::",
        f"2a01:64:0:{high}:00{octets[2]}:{octets[3]}00::",
        f"2a01:64:0:00{octets[0]}:00{octets[1]}:{octets[2]}{octets[3]}::",
        f"2a01:64::00{octets[0]}:{octets[1]}{octets[2]}:{octets[3]}00:0",
    ]


@each_row("written", ["169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192"])
def test_metadata_address_is_refused_in_every_notation(written: str) -> None:
    address = ipaddress.IPv4Address(written)
    assert not is_allowed_address(address, EVERYWHERE)
    every = map(ipaddress.ip_address, notations(address))
    assert [str(each) for each in every if is_allowed_address(each, EVERYWHERE)] == []


@each_row("block", METADATA)
def test_no_setting_allows_metadata_services(block: Network) -> None:
    assert not any(is_allowed_address(address, EVERYWHERE) for address in (block[0], block[-1]))


@each_row("address", ["10.1.2.3", "fd00:1::5", "fd12:3456:789a:1::10", "64:ff9b::8.8.8.8", "2a01:64::8.8.8.8"])
def test_network_allowed_by_operator_is_allowed(address: str) -> None:
    assert is_allowed_address(ipaddress.ip_address(address), EVERYWHERE)
