"""Secrets Manager and SSM in an emulator, for tests that store and read secrets."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import httpx
import pytest
from moto.server import ThreadedMotoServer


class SecretStore:
    """Secrets Manager and SSM of an emulator; environment variables name the emulator."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.secrets: Any = boto3.session.Session().client("secretsmanager")
        self.ssm: Any = boto3.session.Session().client("ssm")

    def put(self, kind: str, name: str, text: str) -> str:
        """Store the text as a secret or parameter with this name. Return its ARN."""
        if kind == "secret":
            try:
                return str(self.secrets.create_secret(Name=name, SecretString=text)["ARN"])
            except self.secrets.exceptions.ResourceExistsException:
                return str(self.secrets.put_secret_value(SecretId=name, SecretString=text)["ARN"])
        self.ssm.put_parameter(Name=f"/{name}", Value=text, Type="SecureString", Overwrite=True)
        return str(self.ssm.get_parameter(Name=f"/{name}")["Parameter"]["ARN"])

    @contextmanager
    def without_permissions(self, name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Within the block, enforce IAM permissions and use the credentials of a user without any policy."""
        iam: Any = boto3.session.Session().client("iam")
        iam.create_user(UserName=name)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
        httpx.post(f"{self.endpoint}/moto-api/reset-auth", content=b"0", timeout=60).raise_for_status()
        try:
            yield
        finally:
            httpx.post(f"{self.endpoint}/moto-api/reset-auth", content=b"inf", timeout=60).raise_for_status()


@contextmanager
def emulator() -> Iterator[str]:
    """Run the emulator, and yield its URL."""
    found = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    found.start()
    try:
        yield "http://{}:{}".format(*found.get_host_and_port())
    finally:
        found.stop()


def reach(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> SecretStore:
    """Set the environment variables by which boto3 uses the emulator; return the emulator's secret stores."""
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }.items():
        monkeypatch.setenv(name, value)
    return SecretStore(endpoint)
