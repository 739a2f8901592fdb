"""What a function keeps secret is read where it lies, of either kind, and what cannot be read is named at start (R14)."""

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from aion_core.auth.declaration import Basic
from aion_core.bootstrap import build_app
from aion_core.bootstrap.callers import basic_users
from aion_core.errors import ConfigurationError
from aion_core.settings import Settings
from tests.support.clock import ManualClock
from tests.support.secret_store import SecretStore, emulator, reach
from tests.unit.auth.door import Door
from tests.unit.auth.passwords import CHEAP, basic_header

AION_YAML = "aion:\n  security: {schemes: {basic: {type: basic}}}\n  agents: {a: {path: a.py}}\n"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with emulator() as endpoint:
        yield endpoint


@pytest.fixture
def aws(server: str, monkeypatch: pytest.MonkeyPatch) -> SecretStore:
    return reach(server, monkeypatch)


def settings(folder: Path, arn: str) -> Settings:
    (folder / "aion.yaml").write_text(AION_YAML)
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(folder / "aion.yaml"), "AION_BASIC_USERS_SECRET": arn}
    return Settings.from_environ(environ)


KINDS = ["secret", "parameter"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_secret_is_read_from_either_place_and_a_change_is_seen_without_a_deployment(
    tmp_path: Path, aws: SecretStore, kind: str, clock: ManualClock
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
def test_a_secret_that_cannot_be_used_is_named_at_start_and_not_said(
    tmp_path: Path, aws: SecretStore, kind: str
) -> None:
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
    "arn:aws:secretsmanager:us-east-1:123456789012:secret:gone-AbCdEf": "cannot be read: it does not exist",
    "arn:aws:ssm:us-east-1:123456789012:parameter/gone": "cannot be read: it does not exist",
    "gone": "cannot be read: it does not exist",
    "arn:aws:s3:::bucket/key": "it has to be the ARN of a Secrets Manager secret or of an SSM parameter",
    "arn:aws:ssm:us-east-1:123456789012:document/x": "it has to be the ARN of",
}


@pytest.mark.parametrize("arn", ODD)
def test_a_secret_that_is_not_there_is_named_at_start(tmp_path: Path, aws: SecretStore, arn: str) -> None:
    """R14."""
    with pytest.raises(ConfigurationError) as raised:
        build_app(settings(tmp_path, arn))
    assert arn in str(raised.value)
    assert "AION_BASIC_USERS_SECRET" in str(raised.value)
    assert ODD[arn] in str(raised.value)


def test_bytes_are_no_text(tmp_path: Path, aws: SecretStore) -> None:
    arn = aws.secrets.create_secret(Name=f"bytes-{uuid4().hex}", SecretBinary=b"\x00hunter2")["ARN"]
    with pytest.raises(ConfigurationError, match="holds bytes") as raised:
        build_app(settings(tmp_path, arn))
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_that_the_function_may_not_read_names_what_its_role_lacks(
    tmp_path: Path, aws: SecretStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R14, R15."""
    arn = aws.put(kind, "closed", "{}")
    with (
        aws.asked_by_nobody(f"nobody-{kind}", monkeypatch),
        pytest.raises(ConfigurationError) as raised,
    ):
        build_app(settings(tmp_path, arn))
    assert arn in str(raised.value)
    assert "may not read it" in str(raised.value)
    assert "secretsmanager:GetSecretValue or ssm:GetParameter" in str(raised.value)


def test_where_aws_does_not_answer_it_is_said_so(
    tmp_path: Path, aws: SecretStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(ConfigurationError, match="cannot be read: EndpointConnectionError"):
        build_app(settings(tmp_path, "arn:aws:ssm:us-east-1:123456789012:parameter/x"))
