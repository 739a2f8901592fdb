"""Requests to API Gateway and a Function URL are signed for their service and region."""

import re

import pytest

from aion_tools.operator.sigv4 import signed_headers


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")


@pytest.mark.parametrize(
    ("url", "scope"),
    [
        ("https://abc.execute-api.us-east-2.amazonaws.com/prod/message:send", "us-east-2/execute-api"),
        ("https://abc.lambda-url.us-west-1.on.aws/", "us-west-1/lambda"),
        ("https://agents.example.com/", "eu-west-1/execute-api"),
    ],
)
def test_signature_names_service_and_region(url: str, scope: str) -> None:
    headers = signed_headers("POST", url, b"{}", {"content-type": "application/json"})
    authorization = headers["Authorization"]
    assert re.match(rf"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/\d{{8}}/{scope}/aws4_request, ", authorization)
    signed = re.search(r"SignedHeaders=([^,]+)", authorization)
    assert signed is not None
    assert {"content-type", "host", "x-amz-date", "x-amz-security-token"} <= set(signed[1].split(";"))
    assert headers["X-Amz-Security-Token"] == "a-token"


def test_signature_depends_on_body_and_path() -> None:
    urls = ("https://a.lambda-url.eu-west-1.on.aws/", "https://a.lambda-url.eu-west-1.on.aws/x%20y")
    signatures = {signed_headers("POST", url, body)["Authorization"] for url in urls for body in (b"", b"{}")}
    assert len(signatures) == 4
