"""Signatures of requests to another deployment."""

import httpx
import pytest

from aion_core.aws.request_signature import AwsSignature
from aion_core.errors import ConfigurationError

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIACALLER", "AWS_SECRET_ACCESS_KEY": "the-callers-secret"}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_REGION", "eu-north-1")


async def signed(url: str, region: str = "") -> str:
    """Return the header by which AWS checks the request."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), auth=AwsSignature("far", region)) as client:
        await client.post(url, json={"a": 1})
    return str(seen[0].headers["authorization"])


@pytest.mark.parametrize(
    ("url", "region", "scope"),
    [
        ("https://a1.execute-api.eu-west-1.amazonaws.com/prod/", "", "eu-west-1/execute-api"),
        ("https://a1.execute-api.eu-west-1.amazonaws.com/prod/", "us-east-1", "us-east-1/execute-api"),
        ("https://a1.lambda-url.ap-south-1.on.aws/", "", "ap-south-1/lambda"),
        ("https://agents.example.com/", "", "eu-north-1/execute-api"),
        ("https://agents.example.com/", "sa-east-1", "sa-east-1/execute-api"),
    ],
)
async def test_scope_follows_from_address(url: str, region: str, scope: str) -> None:
    header = await signed(url, region)
    assert f"/{scope}/aws4_request" in header
    assert "the-callers-secret" not in header


async def test_missing_region_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    with pytest.raises(ConfigurationError, match="remote 'far' cannot be signed: there is no region"):
        await signed("https://agents.example.com/")
