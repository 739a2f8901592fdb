"""SSRF checks of webhook URLs and addresses."""

import ipaddress
import socket
from collections.abc import Callable

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aion_core.errors import WebhookBlocked
from aion_core.push.ssrf import WebhookPolicy, check_addresses, check_url, is_allowed_address
from tests.support.downgraded import downgraded
from tests.support.rows import each_row

ALLOWED = WebhookPolicy.for_service("https://agents.example.com/a2a")
SPELLED = [str.lower, str.upper, str.title]
"""Letter cases in which an operator may write names."""

LOCAL = WebhookPolicy.for_service("http://127.0.0.1:8000", http=True, networks=["127.0.0.0/8", "::1/128"])

GOOD = {
    "https://hooks.example.org": "https://hooks.example.org/",
    "https://hooks.example.org/a/b?c=d%20e&f": "https://hooks.example.org/a/b?c=d%20e&f",
    "https://hooks.example.org?only=query": "https://hooks.example.org/?only=query",
    "HTTPS://Hooks.Example.ORG:443/A": "https://hooks.example.org/A",
    "https://hooks.example.org:8443/": "https://hooks.example.org:8443/",
    "https://hooks.example.org/a#of-no-interest": "https://hooks.example.org/a",
    "https://b\u00fccher.example/": "https://xn--bcher-kva.example/",
    "https://8.8.8.8/": "https://8.8.8.8/",
    "https://[2606:4700:4700:0::1111]/": "https://[2606:4700:4700::1111]/",
    "https://hooks.example.org/" + "x" * 2022: "https://hooks.example.org/" + "x" * 2022,
    # Allow another port of our own host, because another service listens there.
    "https://agents.example.com:8443/hook": "https://agents.example.com:8443/hook",
}


@each_row("url", GOOD)
def test_public_https_url_is_allowed_and_normalised(url: str) -> None:
    target = check_url(url, ALLOWED)
    assert target.url == GOOD[url]
    # Compare with httpx, which must read the same host and port in the URL.
    read = httpx.URL(target.url)
    assert (read.raw_host.decode(), read.port or 443, read.raw_path.decode()) == (target.host, target.port, target.path)


LIKE = "https://hooks.example.org/a"
"""URL of a host that an operator allows, at its default port."""


@each_row("what", downgraded(LIKE))
def test_url_that_looks_like_allowed_one_is_blocked(what: str) -> None:
    policy = WebhookPolicy.for_service("https://agents.example.com", hosts=["hooks.example.org"], ports=[443])
    assert check_url(LIKE, policy).url == LIKE
    with pytest.raises(WebhookBlocked):
        check_url(downgraded(LIKE)[what], policy)


BAD = {
    "other schemes": ["http://example.org/", "ftp://example.org/", "gopher://example.org/", "file:///etc/passwd", "javascript:alert(1)"],
    "no scheme": ["//example.org/", "example.org", "/hook", "data:text/plain,hi", "", "https:example.org", "https:/example.org", "https:///example.org"],
    "loopback": ["https://127.0.0.1/", "https://localhost/", "https://a.localhost/", "https://0.0.0.0/", "https://[::1]/", "https://[::]/"],
    "addresses in other words": [
        "https://2130706433/", "https://0x7f.1/", "https://0x7f000001/", "https://0177.0.0.1/", "https://127.1/", "https://127.0.0.01/",
        "https://017700000001/", "https://0x7f.0x0.0x0.0x1/", "https://1.2.3.4.5/", "https://256.1.1.1/", "https://0x/",
        "https://\uff11\uff12\uff17.0.0.1/", "https://\u2460\u2461\u2466.0.0.1/", "https://127\u30020.0.1/", "https://\U0001d7cf27.0.0.1/",
    ],
    "clouds' credentials": [
        "https://169.254.169.254/latest/meta-data/", "https://[fd00:ec2::254]/", "https://169.254.170.2/v2/credentials", "https://100.100.100.200/",
        "https://168.63.129.16/", "https://192.0.0.192/", "https://metadata.google.internal/", "https://metadata/", "https://instance-data/",
    ],
    "private networks": [
        "https://10.0.0.1/", "https://172.16.0.1/", "https://192.168.0.1/", "https://100.64.0.1/", "https://[fd12::1]/", "https://198.18.0.1/",
        "https://printer.local/", "https://db.corp/", "https://a.internal/", "https://1.0.0.127.in-addr.arpa/",
    ],
    "inside other addresses": [
        "https://[::ffff:169.254.169.254]/", "https://[::ffff:a9fe:a9fe]/", "https://[64:ff9b::a9fe:a9fe]/", "https://[64:ff9b:1::a9fe:a9fe]/",
        "https://[2002:a9fe:a9fe::1]/", "https://[2001:0:a9fe:a9fe::1]/", "https://[::a9fe:a9fe]/", "https://[::ffff:8.8.8.8]/",
        "https://[fec0::1]/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/", "https://[2606:4700::1%25eth0]/",
        "https://[::ffff:0:127.0.0.1]/",
    ],
    "nobody's, or a group's": [
        "https://224.0.0.1/", "https://239.255.255.250/", "https://255.255.255.255/", "https://240.0.0.1/", "https://192.0.2.1/", "https://[ff02::1]/",
        "https://[2001:db8::1]/", "https://[3fff::1]/", "https://[5f00::1]/", "https://192.88.99.1/", "https://[100::1]/", "https://[2001:10::1]/",
    ],
    "two readings": [
        "https://user:pass@example.org/", "https://good.org@evil.org/", "https://@example.org/", "https://good.org\\@evil.org/", "https://example.org\\evil",
        "https://exa\nmple.org/", "https://exa\tmple.org/", "https://example.org/\r\nX-Evil: 1", " https://example.org/", "https://example.org/ ",
        "https://example.org/\0", "https://exam ple.org/", "https://example.org/a b", "https://%65xample.org/", "https://example.org%2f@evil.org/",
        "https://example.org/\u00e9", "https://example.org:443:443/", "https://[::1", "https://::1/", "https://[127.0.0.1]/", "https://[::1]evil.org/",
        "https://exa\u00admple..org/", "https://example.org\u202e/", "https://ex\u200bample.org/",
    ],
    "trailing dots": ["https://example.org./", "https://127.0.0.1./", "https://localhost./", "https://example.org\u3002/"],
    "ports": [
        "https://example.org:22/", "https://example.org:6379/", "https://example.org:80/", "https://example.org:0/", "https://example.org:65979/",
        "https://example.org:99999/", "https://example.org:/", "https://example.org:+443/", "https://example.org:-1/", "https://example.org:4\u0664 3/",
    ],
    "no host's name": ["https:///", "https://?x", "https://:443/", "https://.org/", "https://-a.org/", "https://a-.org/", "https://a_b.org/", "https://a..org/", "https://*.org/", f"https://{'a' * 64}.org/", "https://" + "a." * 127 + "org/"],
    "too long": ["https://example.org/" + "x" * 2029, "https://example.org/" + "x" * 9000],
    "this service": ["https://agents.example.com/", "https://AGENTS.example.com:443/agents/x/?y", "https://agents.example.com/a2a"],
}  # fmt: skip


@each_row("url", [url for urls in BAD.values() for url in urls])
def test_unsafe_webhook_urls_are_refused(url: str) -> None:
    with pytest.raises(WebhookBlocked) as refusal:
        check_url(url, ALLOWED)
    assert len(str(refusal.value)) > 10


@given(
    st.text(max_size=60)
    | st.from_regex(r"https?://[!-~]{1,40}", fullmatch=True)
    | st.from_regex(r"https://[0-9a-fx.:\[\]%@\\]{1,30}(/|:443/)?", fullmatch=True)
)
@example("https://a.b:443")
def test_httpx_parses_allowed_webhook_url_identically(url: str) -> None:
    """If our check read another host than httpx, a post could reach a forbidden address."""
    try:
        target = check_url(url, ALLOWED)
    except WebhookBlocked:
        return
    read = httpx.URL(target.url)
    assert (read.scheme, read.raw_host.decode(), read.port or 443) == ("https", target.host, target.port)
    assert not read.userinfo
    assert target.port in (443, 8443)
    try:
        address = socket.inet_aton(target.host)
    except OSError:
        return
    # The C library reads this host name as an address, so the check must read the same address.
    assert target.address is not None
    assert target.address.packed == address
    assert is_allowed_address(target.address)


@given(st.ip_addresses())
@example(ipaddress.ip_address("2001:4860:4860::8888"))
def test_only_public_addresses_are_allowed(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if is_allowed_address(address):
        assert address.is_global
        assert not any((address.is_private, address.is_multicast, address.is_reserved, address.is_link_local))
        if isinstance(address, ipaddress.IPv6Address):
            assert (address.ipv4_mapped, address.sixtofour, address.teredo) == (None, None, None)


def test_host_name_with_one_private_address_is_refused() -> None:
    """The name has a public and a private address: a connection might use either."""
    target = check_url("https://hooks.example.org/", ALLOWED)
    assert check_addresses(target, ["93.184.215.14", "2606:4700:4700::1111"], ALLOWED) == [
        "93.184.215.14",
        "2606:4700:4700::1111",
    ]
    for private in (
        "10.1.2.3",
        "127.0.0.1",
        "169.254.169.254",
        "::ffff:10.1.2.3",
        "fe80::1%eth0",
        "no address",
        "64:ff9b::a00:1",
    ):
        with pytest.raises(WebhookBlocked):
            check_addresses(target, ["93.184.215.14", private], ALLOWED)
    with pytest.raises(WebhookBlocked, match="no address"):
        check_addresses(target, [], ALLOWED)


def test_development_allows_http_to_loopback_addresses_only() -> None:
    assert check_url("http://127.0.0.1:9000/hook", LOCAL).url == "http://127.0.0.1:9000/hook"
    assert check_url("http://[::1]:9000/", LOCAL).url == "http://[::1]:9000/"
    target = check_url("http://localhost:9000/", LOCAL)
    assert check_addresses(target, ["127.0.0.1", "::1"], LOCAL) == ["127.0.0.1", "::1"]
    for url in ("http://10.0.0.1/", "http://169.254.169.254/", "ftp://127.0.0.1/", "http://127.0.0.1:0/"):
        with pytest.raises(WebhookBlocked):
            check_url(url, LOCAL)


@pytest.mark.parametrize("spelled", SPELLED)
def test_webhook_at_service_itself_is_refused_in_any_spelling(spelled: Callable[[str], str]) -> None:
    """A webhook at the service's own URL would make it post to itself forever."""
    with pytest.raises(WebhookBlocked, match="itself"):
        check_url(
            "https://agents.example.com/", WebhookPolicy.for_service(f"https://{spelled('agents.example.com')}/a")
        )
    allowed = WebhookPolicy.for_service("https://a.example.com", networks=[spelled("fd00:ab::/32")])
    assert check_url("https://[fd00:ab::1]/", allowed).host == "fd00:ab::1"
    for host in ("127.0.0.1", "localhost", "LocalHost", "agents.localhost", "[::1]", "[0:0:0:0:0:0:0:1]"):
        with pytest.raises(WebhookBlocked, match="itself"):
            check_url(f"http://{host}:8000/agents/x/", LOCAL)
    with pytest.raises(WebhookBlocked):
        check_addresses(check_url("http://my-machine:8000/", LOCAL), ["127.0.0.1"], LOCAL)


@each_row("base", ["https://B\u00fccher.example", "https://xn--bcher-kva.example:443/a2a"])
@each_row("url", ["https://b\u00fccher.example/", "https://XN--bcher-kva.example:443/x"])
def test_webhook_at_internationalized_domain_of_service_is_refused(base: str, url: str) -> None:
    with pytest.raises(WebhookBlocked, match="itself"):
        check_url(url, WebhookPolicy.for_service(base))


@each_row(
    "address",
    [
        "169.254.169.254",
        "169.254.170.2",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "168.63.129.16",
        "[fe80::1]",
        "0.0.0.0",  # noqa: S104  # nothing is bound
        "[::ffff:0.0.0.0]",
        "[fd20:ce::254]",
        "[fd00:42::42]",
        "[::ffff:169.254.169.254]",
        "[::169.254.169.254]",
        "[64:ff9b::169.254.169.254]",
        "[64:ff9b:1::a9fe:a9fe]",
        "[64:ff9b:1:a9fe:a9:fe00::]",
        "[2002:a9fe:a9fe::1]",
    ],
)
def test_metadata_service_stays_blocked_although_all_networks_are_allowed(address: str) -> None:
    wide = WebhookPolicy.for_service("https://a.example.com", networks=["0.0.0.0/0", "::/0"])
    assert check_url("https://10.0.0.1/", wide).host == "10.0.0.1"
    with pytest.raises(WebhookBlocked):
        check_url(f"https://{address}/", wide)


@pytest.mark.parametrize("spelled", SPELLED)
def test_deployment_may_restrict_webhook_hosts(spelled: Callable[[str], str]) -> None:
    named = WebhookPolicy.for_service(
        "https://a.example.com", hosts=[*map(spelled, ("hooks.example.org", ".partner.example"))], ports=[443, 9443]
    )
    for url in ("https://hooks.example.org/", "https://HOOKS.example.org:9443/", "https://eu.partner.example/"):
        check_url(url, named)
    for url in (
        "https://example.org/",
        "https://xhooks.example.org/",
        "https://partner.example/",
        "https://evilpartner.example/",
        "https://8.8.8.8/",
        "https://hooks.example.org:8443/",
    ):
        with pytest.raises(WebhookBlocked):
            check_url(url, named)


@pytest.mark.parametrize("spelled", SPELLED)
def test_allowed_host_may_be_written_in_any_script(spelled: Callable[[str], str]) -> None:
    named = WebhookPolicy.for_service(
        "https://a.example.com", hosts=[*map(spelled, ("müller.example", ".bücher.example"))]
    )
    for url in ("https://müller.example/", "https://xn--mller-kva.example/", "https://neue.bücher.example/"):
        check_url(url, named)
    with pytest.raises(WebhookBlocked):
        check_url("https://muller.example/", named)


@pytest.mark.parametrize("host", ["https://hooks.example.org", "hooks example", "[::1", ".", "10.1"])
def test_allowed_host_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="its host"):
        WebhookPolicy.for_service("https://a.example.com", hosts=[host])


def test_console_receiver_is_only_webhook_allowed_at_service_itself() -> None:
    policy = WebhookPolicy.for_service(
        "http://127.0.0.1:8000", http=True, networks=["127.0.0.0/8"], receiver="http://127.0.0.1:8000/console/receiver"
    )
    target = check_url("http://127.0.0.1:8000/console/receiver#fragment", policy)
    assert check_addresses(target, ["127.0.0.1"], policy) == ["127.0.0.1"]
    for path in ("", "/", "/console/receiver/", "/console/receiver?a=b", "/console/receiver/../../agents/x"):
        with pytest.raises(WebhookBlocked, match="itself"):
            check_url(f"http://127.0.0.1:8000{path}", policy)
    with pytest.raises(WebhookBlocked, match="itself"):
        check_url(
            "http://127.0.0.1:8000/console/receiver", WebhookPolicy.for_service("http://127.0.0.1:8000", http=True)
        )
