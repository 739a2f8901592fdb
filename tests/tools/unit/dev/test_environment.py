"""Environment variables of agents: in aion.yaml, and on a developer's machine."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.environment import SecretSource
from aion_core.loading.deployment import read_deployment_config
from aion_tools.dev.environment import local_environment
from tests.support.rows import each_row


def written(folder: Path, **aion: Any) -> Path:
    file = folder / "aion.yaml"
    file.write_text(json.dumps({"aion": {**aion, "agents": {"a": {"path": "a.py"}}}}))
    return file


SOURCES = {
    "openai-key": SecretSource("secretsmanager", "openai-key"),
    "prod/db#password": SecretSource("secretsmanager", "prod/db", "password"),
    "prod/db#a key: with #": SecretSource("secretsmanager", "prod/db", "a key: with #"),
    "ssm:/my-agent/tavily": SecretSource("ssm", "/my-agent/tavily"),
    "ssm:plain": SecretSource("ssm", "plain"),
    "ssm:/a:3": SecretSource("ssm", "/a:3"),
    "ssm:/a#b": SecretSource("ssm", "/a", "b"),
    "arn:aws:secretsmanager:eu-west-1:123456789012:secret:a/b-AbCdEf": SecretSource(
        "secretsmanager", "arn:aws:secretsmanager:eu-west-1:123456789012:secret:a/b-AbCdEf"
    ),
    "arn:aws-us-gov:ssm:us-gov-west-1:123456789012:parameter/a/b#c": SecretSource(
        "ssm", "arn:aws-us-gov:ssm:us-gov-west-1:123456789012:parameter/a/b", "c"
    ),
    "sk-team": SecretSource("secretsmanager", "sk-team"),
}


@each_row("said", SOURCES)
def test_each_notation_of_secret_in_aion_yaml_is_read(said: str, tmp_path: Path) -> None:
    assert read_deployment_config(written(tmp_path, secrets={"KEY": said})).secrets == {"KEY": SOURCES[said]}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"environment": {"A": 5}}, "aion.environment.A is 5, which YAML does not read as text: put it in quotes."),
    ({"environment": {"A": True}}, "aion.environment.A is True, which YAML does not read as text: put it in quotes."),
    ({"environment": {"A": None}}, "aion.environment.A is None, which YAML does not read as text: put it in quotes."),
    ({"environment": {"A": "a\0b"}}, "aion.environment.A: an environment variable cannot hold a NUL character."),
    ({"environment": ["A=5"]}, "aion.environment is a list: it has keys of its own, `key: value`."),
    ({"secrets": {"A": 5}}, "aion.secrets.A: YAML does not read this as text: put it in quotes."),
    ({"secrets": {"A": "k"}, "environment": {"A": "v"}}, "aion: A is in both environment and secrets; remove one of"),
    ({"secrets": {"A": "k"}, "environment": {"B-C": "v"}}, "aion.environment.B-C: a variable's name has letters, digits"),
    ({"secrets": {"1A": "k"}}, "aion.secrets.1A: a variable's name has letters, digits and _, and does not begin"),
    ({"secret": {"A": "k"}}, "aion.secret is not a key that aion knows. Did you mean 'secrets'?"),
]  # fmt: skip
REFUSED += [
    ({kind: {name: "text"}}, f"aion.{kind}.{name}: {said}")
    for kind in ("environment", "secrets")
    for name, said in {
        "AION_TABLE": "names that begin with AION_ are aion's own: the template's parameters set them.",
        "AWS_REGION": "Lambda sets this variable and reserves its name.",
        "AWS_SECRET_ACCESS_KEY": "Lambda sets this variable and reserves its name.",
        "LAMBDA_TASK_ROOT": "Lambda sets this variable and reserves its name.",
        "_HANDLER": "Lambda sets this variable and reserves its name.",
        "_X_AMZN_TRACE_ID": "Lambda sets this variable and reserves its name.",
        "PYTHONPATH": "this variable is read when the process starts, before the agents' variables are set: it would change nothing.",
        "LD_PRELOAD": "this variable is read when the process starts, before the agents' variables are set: it would change nothing.",
    }.items()
]


@each_row(("aion", "said"), REFUSED)
def test_unusable_environment_variable_is_named_in_error(aion: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        read_deployment_config(written(tmp_path, **aion))


@each_row(
    "said",
    ["", "a b", "ssm:", "ssm:/a b", "a#", "#a", "a:b", "arn:aws:s3:::bucket/key", "arn:aws:ssm:eu:1:document/x", "x" * 513],
)  # fmt: skip
def test_unknown_secret_source_is_refused(said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"aion\.secrets\.KEY: this is neither the name or ARN"):
        read_deployment_config(written(tmp_path, secrets={"KEY": said}))


@each_row(
    "key",
    ["sk-proj-0123456789abcdef", "AIzaSyA0123456789abcdefgh", "ghp_0123456789abcdefgh", "-----BEGIN PRIVATE KEY-----"],
)
def test_error_hides_api_key_given_as_secret_name(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_deployment_config(written(tmp_path, secrets={"KEY": key}))
    assert "aion.secrets.KEY: this looks like the key itself. Put the key into Secrets Manager" in str(raised.value)
    assert key not in str(raised.value)


def test_process_environment_precedes_dotenv_and_aion_yaml(tmp_path: Path) -> None:
    said = {"BY_YAML": "yaml", "BY_DOTENV": "yaml", "BY_PROCESS": "yaml", "EMPTY": "yaml"}
    file = written(tmp_path, environment=said, secrets={"KEY": "k"})
    (tmp_path / ".env").write_text(
        "BY_DOTENV=dotenv\nBY_PROCESS=dotenv\nMORE='with spaces'\nKEY=value # a remark\nNAME_ONLY\n"
    )
    environ = {"BY_PROCESS": "process", "EMPTY": ""}
    assert local_environment(file, environ) == (
        {"BY_YAML": "yaml", "BY_DOTENV": "dotenv", "MORE": "with spaces", "KEY": "value"},
        [],
    )


def test_unset_secret_causes_warning(tmp_path: Path) -> None:
    file = written(tmp_path, secrets={"SET": "a", "UNSET": "prod/b#c", "EMPTY": "ssm:/d"})
    (tmp_path / ".env").write_text("EMPTY=\n")
    variables, warnings = local_environment(file, {"SET": "value"})
    assert variables == {"EMPTY": ""}
    assert warnings == [
        f"UNSET is not set: its secret (prod/b) is not read from AWS on this machine. "
        f"Write UNSET=… into {tmp_path / '.env'}, or export UNSET.",
        f"EMPTY is not set: its secret (ssm:/d) is not read from AWS on this machine. "
        f"Write EMPTY=… into {tmp_path / '.env'}, or export EMPTY.",
    ]


def test_dotenv_is_read_without_aion_yaml(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=value\n")
    assert local_environment(tmp_path / "aion.yaml", {}) == ({"KEY": "value"}, [])
    assert local_environment(tmp_path / "sub" / "aion.yaml", {}) == ({}, [])


def test_unreadable_dotenv_is_named_without_content(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"KEY=hunter2\xff\n")
    with pytest.raises(ConfigurationError, match=r"\.env cannot be read: it is not UTF-8\.") as raised:
        local_environment(tmp_path / "aion.yaml", {})
    assert "hunter2" not in str(raised.getrepr(chain=True, style="short"))
