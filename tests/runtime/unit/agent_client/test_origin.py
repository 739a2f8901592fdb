"""Origins of URLs, as a hostile card may write them."""

import pytest

from aion_core.agent_client.origin import origin_of


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("https://A.example/x", True),
        ("https://a.example:443", True),
        ("https://me:secret@a.example/", True),
        ("https://a.example:8443/", False),
        ("http://a.example/", False),
        ("http://a.example:443/", False),
        ("https://a.example.evil/", False),
        ("https://a.example@evil.example/", False),
        ("https://a.example\\@evil.example/", False),
        ("https://evil.example#@a.example/", False),
        ("https://a.example./", False),
    ],
)
def test_origin_is_scheme_host_and_port(url: str, same: bool) -> None:
    assert (origin_of(url) == origin_of("https://a.example")) is same


@pytest.mark.parametrize(
    "url", ["", "/", "a.example", "ftp://a.example/", "http://", "http://[::1", "http://a:99999999/"]
)
def test_unusable_url_has_no_origin(url: str) -> None:
    assert origin_of(url) is None


def test_names_of_this_machine_are_one_host() -> None:
    assert origin_of("http://127.0.0.1:8000") == origin_of("http://[::1]:8000/a") == origin_of("http://localhost:8000")
    assert origin_of("http://127.0.0.1:8000") != origin_of("http://localhost:8001")
