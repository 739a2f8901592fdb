"""What a function keeps secret is read where it lies, of either kind, and what cannot be read is named at start (R14)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import httpx
import pytest
from moto.server import ThreadedMotoServer

from aion_core.auth.declaration import Basic
from aion_core.bootstrap import build_app
from aion_core.bootstrap.callers import basic_users
from aion_core.errors import ConfigurationError
from aion_core.settings import Settings
from tests.support.clock import ManualClock
from tests.unit.auth.door import Door
from tests.unit.auth.passwords import CHEAP, basic_header

AION_YAML = "aion:\n  security: {schemes: {basic: {type: basic}}}\n  agents: {a: {path: a.py}}\n"


class Aws:
    """Secrets Manager and SSM of an emulator, which the environment names."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.secrets: Any = boto3.session.Session().client("secretsmanager")
        self.ssm: Any = boto3.session.Session().client("ssm")

    def put(self, kind: str, name: str, text: str) -> str:
        """Keep the text, in the place of another of this name; return the ARN."""
        if kind == "secret":
            try:
                return str(self.secrets.create_secret(Name=name, SecretString=text)["ARN"])
            except self.secrets.exceptions.ResourceExistsException:
                return str(self.secrets.put_secret_value(SecretId=name, SecretString=text)["ARN"])
        self.ssm.put_parameter(Name=f"/{name}", Value=text, Type="SecureString", Overwrite=True)
        return str(self.ssm.get_parameter(Name=f"/{name}")["Parameter"]["ARN"])


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    found = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    found.start()
    yield "http://{}:{}".format(*found.get_host_and_port())
    found.stop()


@pytest.fixture
def aws(server: str, monkeypatch: pytest.MonkeyPatch) -> Aws:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }.items():
        monkeypatch.setenv(name, value)
    return Aws(server)


def settings(folder: Path, arn: str) -> Settings:
    (folder / "aion.yaml").write_text(AION_YAML)
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(folder / "aion.yaml"), "AION_BASIC_USERS_SECRET": arn}
    return Settings.from_environ(environ)


KINDS = ["secret", "parameter"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_secret_is_read_from_either_place_and_a_change_is_seen_without_a_deployment(
    tmp_path: Path, aws: Aws, kind: str, clock: ManualClock
) -> None:
    """R96: R14."""
    arn = aws.put(kind, "users", json.dumps({"alice": CHEAP.hash("one")}))
    assert arn.startswith("arn:aws:")
    given = settings(tmp_path, arn)
    build_app(given)
    door = Door(clock, users=lambda: basic_users(given), basic=Basic())
    assert (await door.ask(basic_header("alice", "one"))).status_code == 200
    aws.put(kind, "users", json.dumps({"alice": CHEAP.hash("two")}))
    assert (await door.ask(basic_header("alice", "one"))).status_code == 200
    clock.move(301)
    assert (await door.ask(basic_header("alice", "one"))).status_code == 401
    assert (await door.ask(basic_header("alice", "two"))).status_code == 200


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_that_cannot_be_used_is_named_at_start_and_not_said(tmp_path: Path, aws: Aws, kind: str) -> None:
    """R12, R14."""
    arn = aws.put(kind, "spoilt", '{"alice": "hunter2-in-the-clear"}')
    for text in ('{"alice": "hunter2-in-the-clear"}', '{"alice": "hunter2-in-the-clear"'):
        aws.put(kind, "spoilt", text)
        with pytest.raises(ConfigurationError) as raised:
            build_app(settings(tmp_path, arn))
        assert arn in str(raised.value)
        assert "AION_BASIC_USERS_SECRET" in str(raised.value)
        assert "hunter2" not in str(raised.getrepr(chain=True, style="short"))


ODD = {
    "arn:aws:secretsmanager:us-east-1:123456789012:secret:gone-AbCdEf": "cannot be read: there is none",
    "arn:aws:ssm:us-east-1:123456789012:parameter/gone": "cannot be read: there is none",
    "gone": "cannot be read: there is none",
    "arn:aws:s3:::bucket/key": "it has to be the ARN of a Secrets Manager secret or of an SSM parameter",
    "arn:aws:ssm:us-east-1:123456789012:document/x": "it has to be the ARN of",
}


@pytest.mark.parametrize("arn", ODD)
def test_a_secret_that_is_not_there_is_named_at_start(tmp_path: Path, aws: Aws, arn: str) -> None:
    """R14."""
    with pytest.raises(ConfigurationError) as raised:
        build_app(settings(tmp_path, arn))
    assert arn in str(raised.value)
    assert "AION_BASIC_USERS_SECRET" in str(raised.value)
    assert ODD[arn] in str(raised.value)


def test_bytes_are_no_text(tmp_path: Path, aws: Aws) -> None:
    arn = aws.secrets.create_secret(Name=f"bytes-{uuid4().hex}", SecretBinary=b"\x00hunter2")["ARN"]
    with pytest.raises(ConfigurationError, match="holds bytes") as raised:
        build_app(settings(tmp_path, arn))
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_that_the_function_may_not_read_names_what_its_role_lacks(
    tmp_path: Path, aws: Aws, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R14, R15."""
    arn = aws.put(kind, "closed", "{}")
    iam: Any = boto3.session.Session().client("iam")
    name = f"nobody-{kind}"
    iam.create_user(UserName=name)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
    httpx.post(f"{aws.endpoint}/moto-api/reset-auth", content=b"0").raise_for_status()
    try:
        with pytest.raises(ConfigurationError) as raised:
            build_app(settings(tmp_path, arn))
    finally:
        httpx.post(f"{aws.endpoint}/moto-api/reset-auth", content=b"inf").raise_for_status()
    assert arn in str(raised.value)
    assert "may not read it" in str(raised.value)
    assert "secretsmanager:GetSecretValue or ssm:GetParameter" in str(raised.value)


def test_where_aws_does_not_answer_it_is_said_so(tmp_path: Path, aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(ConfigurationError, match="cannot be read: EndpointConnectionError"):
        build_app(settings(tmp_path, "arn:aws:ssm:us-east-1:123456789012:parameter/x"))
