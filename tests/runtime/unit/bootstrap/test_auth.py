"""HTTP Basic users stored in a secret or an SSM parameter: reads, changes, error messages."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from aion_core.auth.schemes.basic import BasicScheme
from aion_core.bootstrap import build_app
from aion_core.bootstrap.auth import basic_users
from aion_core.errors import ConfigurationError
from aion_core.settings import Settings
from tests.runtime.unit.auth.passwords import CHEAP, basic_header
from tests.runtime.unit.bootstrap.secret_store import SecretStore, emulator, reach
from tests.support.auth_app import AuthApp
from tests.support.clock import ManualClock

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
async def test_changed_secret_with_users_is_read_after_five_minutes(
    tmp_path: Path, aws: SecretStore, kind: str, clock: ManualClock
) -> None:
    arn = aws.put(kind, "users", json.dumps({"alice": CHEAP.hash("one")}))
    assert arn.startswith("arn:aws:")
    given = settings(tmp_path, arn)
    build_app(given)
    app = AuthApp(clock, users=lambda: basic_users(given), basic=BasicScheme())
    assert (await app.get(basic_header("alice", "one"))).status_code == 200
    aws.put(kind, "users", json.dumps({"alice": CHEAP.hash("two")}))
    assert (await app.get(basic_header("alice", "one"))).status_code == 200
    clock.move(301)
    assert (await app.get(basic_header("alice", "one"))).status_code == 401
    assert (await app.get(basic_header("alice", "two"))).status_code == 200


@pytest.mark.parametrize("kind", KINDS)
def test_error_names_invalid_basic_auth_secret_but_not_its_value(tmp_path: Path, aws: SecretStore, kind: str) -> None:
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
    "arn:aws:s3:::bucket/key": "it must be the ARN of a Secrets Manager secret or of an SSM parameter",
    "arn:aws:ssm:us-east-1:123456789012:document/x": "it must be the ARN of",
}


@pytest.mark.parametrize("arn", ODD)
def test_error_names_missing_secret_with_users(tmp_path: Path, aws: SecretStore, arn: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        build_app(settings(tmp_path, arn))
    assert arn in str(raised.value)
    assert "AION_BASIC_USERS_SECRET" in str(raised.value)
    assert ODD[arn] in str(raised.value)
