"""`aion key` and `aion user` on the command line, with an emulated table."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from click.testing import CliRunner, Result

from aion_core.auth.api_keys import ApiKeys
from aion_core.auth.credentials import RequestCredentials
from aion_core.auth.principal import Principal
from aion_core.auth.scheme import AuthFailure
from aion_core.auth.schemes.api_key import ApiKeyScheme, ApiKeyVerifier
from aion_core.auth.schemes.basic_users import parse_users
from aion_core.clock import SystemClock
from aion_core.errors import AionError
from aion_tools.cli.main import aion
from aion_tools.stack.stack import LocalStack
from tests.support.declared import AION_YAML
from tests.support.stores import dynamodb_table

RunCommand = Callable[..., Result]


@pytest.fixture
def run(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    for name, value in stack.environment("ApiFunction").items():
        monkeypatch.setenv(name, value)
    return lambda *arguments, **options: CliRunner().invoke(aion, [*map(str, arguments)], **options)


def created(run: RunCommand, *arguments: str) -> str:
    made = run("key", "create", *arguments)
    assert made.exit_code == 0, made.exception
    return made.stdout.strip()


async def whose(stack: LocalStack, text: str) -> Principal | AuthFailure:
    """Authenticate with the API key as the server does; return the key's principal, or the failure."""
    keys = ApiKeys(dynamodb_table(stack), SystemClock())
    return await ApiKeyVerifier(ApiKeyScheme(), keys).verify(
        RequestCredentials.from_request([(b"x-api-key", text.encode())], None)
    )


def refusal(failed: Result) -> str:
    assert isinstance(failed.exception, AionError), failed.output
    return str(failed.exception)


def test_created_api_key_is_limited_and_printed_once(run: RunCommand, stack: LocalStack, tmp_path: Path) -> None:
    import asyncio

    config = tmp_path / "aion.yaml"
    config.write_text(AION_YAML, encoding="utf-8")
    for_agent = ["--agent", "helper", "--agent", "quiet", "--config", str(config)]
    text = created(run, "alice@example.com", *for_agent, "--scope", "read", "--tenant", "red", "--days", "3")
    found = asyncio.run(whose(stack, text))
    assert isinstance(found, Principal)
    assert (found.subject, found.tenant, found.scopes) == ("alice@example.com", "red", frozenset({"read"}))
    assert found.agents == frozenset({"helper", "quiet"})

    listed = run("key", "list")
    line = next(line for line in listed.stdout.splitlines() if text.split("_")[1] in line)
    for word in ("alice@example.com", f"  {text[-4:]}  ", "helper, quiet", "  read  ", "  red  "):
        assert word in line
    assert text.split("_", 2)[2] not in listed.output

    other = created(run, "alice@example.com")
    assert "every agent" in next(line for line in run("key", "list").stdout.splitlines() if other[-4:] in line)
    assert run("key", "revoke", text.split("_")[1]).exit_code == 0
    assert asyncio.run(whose(stack, text)) is AuthFailure.INVALID
    # `revoke` accepts the whole key instead of its id, and does not print the key.
    revoked = run("key", "revoke", other)
    assert revoked.exit_code == 0
    assert other.split("_", 2)[2] not in revoked.output
    assert asyncio.run(whose(stack, other)) is AuthFailure.INVALID
    assert "There is no key" in refusal(run("key", "revoke", other))


def test_json_of_new_key_equals_its_json_in_list(run: RunCommand) -> None:
    new = json.loads(
        run("key", "create", "carol", "--scope", "write", "--scope", "read", "--days", "3", "--json").stdout
    )
    text = new.pop("key")
    listed = run("key", "list", "--json").stdout
    assert new in json.loads(listed)
    assert (new["id"], new["last4"]) == (text.split("_")[1], text[-4:])
    assert (new["principal"], new["agents"], new["scopes"], new["tenant"]) == ("carol", None, ["read", "write"], "")
    assert new["created"] < new["expires"]
    assert text.split("_", 2)[2] not in listed


def test_api_key_create_refuses_invalid_names(run: RunCommand, tmp_path: Path) -> None:
    config = tmp_path / "aion.yaml"
    config.write_text(AION_YAML, encoding="utf-8")
    before = run("key", "list").stdout
    assert "has no agent 'nobody'" in refusal(run("key", "create", "a", "--agent", "nobody", "--config", config))
    mistyped = refusal(run("key", "create", "a", "--agent", "helpr", "--config", config))
    assert mistyped == f"{config} has no agent 'helpr'. Did you mean 'helper'?"
    assert "is not a scope" in refusal(run("key", "create", "a", "--scope", "a b"))
    for principal in ("", " ", "a\nb", "a" * 300):
        assert "has to be a name" in refusal(run("key", "create", principal))
    for tenant in ("a/b", "Console", "-a", "a" * 129):
        assert "The tenant has to be 1 to 128 letters" in refusal(run("key", "create", "a", "--tenant", tenant))
    assert run("key", "list").stdout == before


def test_key_command_without_usable_table_reports_error(run: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "ResourceNotFound" in refusal(run("key", "list", "--table", "no-such-table"))
    monkeypatch.delenv("AION_TABLE")
    assert "AION_TABLE" in run("key", "list").stderr


def test_printed_password_hash_is_valid_in_users_secret(run: RunCommand) -> None:
    made = run("user", "hash", "alice", input="wonder:land\n")
    assert made.exit_code == 0
    users = parse_users(made.stdout, "it")
    assert PasswordHasher().verify(users["alice"], "wonder:land")
    assert "wonder" not in made.output
    assert json.loads(run("user", "hash", "alice", input="wonder:land\n").stdout) != users, "each with its own salt"
    assert "The password is empty" in refusal(run("user", "hash", "alice", input="\n"))
    assert "and no ':'" in refusal(run("user", "hash", "a:b", input="x\n"))
