"""Secrets of aion.yaml as variables of agents' code: loaded at start, refreshed, and never logged."""

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from aion_core import log
from aion_core.bootstrap import build_app
from aion_core.bootstrap.agent_environment import (
    AgentEnvironment,
    agent_environment,
    given_variables,
    read_from_aws,
)
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.reading import DeploymentConfig
from aion_core.loading.deployment import read_deployment_config
from aion_core.settings import Settings
from tests.runtime.unit.bootstrap.secret_store import SecretStore, emulator, reach
from tests.support.clock import ManualClock
from tests.support.rows import each_row
from tests.support.service import http, send


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with emulator() as endpoint:
        yield endpoint


@pytest.fixture
def aws(server: str, monkeypatch: pytest.MonkeyPatch) -> SecretStore:
    return reach(server, monkeypatch)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the test, remove its secret values from those that the log redacts."""
    monkeypatch.setattr(log, "_always", set())


def unique() -> str:
    """Return a unique name or value."""
    return f"value-{uuid4().hex}"


def declared(folder: Path, **secrets: str) -> DeploymentConfig:
    file = folder / "aion.yaml"
    file.write_text(json.dumps({"aion": {"secrets": secrets, "agents": {"a": {"path": "a.py"}}}}))
    return read_deployment_config(file)


def now(work: Callable[[], None]) -> None:
    """Run the work immediately in this thread; the code under test would start a background thread."""
    work()


class Variables:
    """AgentEnvironment that sets its variables in a dictionary instead of `os.environ`."""

    def __init__(self, folder: Path, clock: ManualClock, environ: dict[str, str] | None = None, **secrets: str) -> None:
        said = declared(folder, **secrets)
        self.environ = {} if environ is None else environ
        read = read_from_aws(said.secrets.values())
        self.secrets = AgentEnvironment(said, clock, read, environ=self.environ, start=now)

    def problems(self) -> list[str]:
        with pytest.raises(ConfigurationError) as raised:
            self.secrets.apply()
        assert self.environ == {}
        return str(raised.value).splitlines()


def test_each_secret_notation_sets_its_environment_variable(
    tmp_path: Path, aws: SecretStore, clock: ManualClock
) -> None:
    name, password = unique(), unique()
    arn = aws.put("secret", name, f"whole-{name}\n")
    aws.put("secret", f"{name}/db", json.dumps({"password": password, "port": 5432, "é": "ü"}))
    parameter = aws.put("parameter", name, f"parameter-{name}")
    said: dict[str, Any] = {
        "BY_NAME": name,
        "BY_ARN": arn,
        "PASSWORD": f"{name}/db#password",
        "PORT": f"{name}/db#port",
        "UMLAUT": f"{name}/db#é",
        "PARAMETER": f"ssm:/{name}",
        "PARAMETER_BY_ARN": parameter,
        "PARAMETER_VERSION": f"ssm:/{name}:1",
    }
    variables = Variables(tmp_path, clock, **said)
    variables.secrets.apply()
    assert variables.environ == {
        "BY_NAME": f"whole-{name}",
        "BY_ARN": f"whole-{name}",
        "PASSWORD": password,
        "PORT": "5432",
        "UMLAUT": "ü",
        "PARAMETER": f"parameter-{name}",
        "PARAMETER_BY_ARN": f"parameter-{name}",
        "PARAMETER_VERSION": f"parameter-{name}",
    }


def test_secrets_are_read_concurrently(tmp_path: Path, clock: ManualClock) -> None:
    all_are_asked = threading.Barrier(8, timeout=60)

    def read(service: str, name: str) -> str:
        # Wait until all reads have begun. If one read waits for another read, the barrier times out and the test fails.
        all_are_asked.wait()
        return name

    said = declared(tmp_path, **{f"V{n}": f"secret-{n}" for n in range(8)})
    environ: dict[str, str] = {}
    AgentEnvironment(said, clock, read, environ=environ).apply()
    assert environ == {f"V{n}": f"secret-{n}" for n in range(8)}


def test_refresh_reads_changed_secret_at_once(tmp_path: Path, clock: ManualClock) -> None:
    """The server refreshes secrets after the restore of a snapshot, because they may be days old."""
    texts = ["first-value", "second-value"]
    said = declared(tmp_path, KEY="name")
    environ: dict[str, str] = {}
    secrets = AgentEnvironment(said, clock, lambda service, name: texts.pop(0), environ=environ)
    secrets.apply()
    assert environ == {"KEY": "first-value"}
    secrets.refresh()
    assert environ == {"KEY": "second-value"}


def test_changed_agent_secret_replaces_variable_after_five_minutes(
    tmp_path: Path, aws: SecretStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    name, first, second = unique(), unique(), unique()
    aws.put("secret", name, first)
    variables = Variables(tmp_path, clock, KEY=name)
    variables.secrets.apply()
    aws.put("secret", name, second)
    clock.move(299)
    variables.secrets.refresh_if_due()
    assert variables.environ == {"KEY": first}
    clock.move(2)
    with caplog.at_level(logging.INFO):
        variables.secrets.refresh_if_due()
    assert variables.environ == {"KEY": second}
    (record,) = [record for record in caplog.records if record.name == "aion_core.bootstrap.agent_environment"]
    assert f"The secret {name} has changed; KEY has the new value." in record.getMessage()
    assert first not in caplog.text
    assert second not in caplog.text


def test_failed_secret_refresh_keeps_value_and_is_retried(
    tmp_path: Path, aws: SecretStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    name, other, first, second = unique(), unique(), unique(), unique()
    aws.put("secret", name, json.dumps({"key": first}))
    aws.put("secret", other, first)
    variables = Variables(tmp_path, clock, KEY=f"{name}#key", OTHER=other)
    variables.secrets.apply()
    aws.put("secret", name, f"no JSON, but {second}")
    aws.put("secret", other, second)
    clock.move(301)
    variables.secrets.refresh_if_due()
    assert variables.environ == {"KEY": first, "OTHER": second}, "one that fails keeps no other back"
    own = [record for record in caplog.records if record.name == "aion_core.bootstrap.agent_environment"]
    # Ignore the log line of level INFO about the other secret: it is written only if an earlier test set this level.
    assert [record.levelname for record in own if record.levelno > logging.INFO] == ["WARNING"]
    assert "Using the last value of a secret. KEY: secret" in caplog.text
    assert second not in caplog.text
    aws.put("secret", name, json.dumps({"key": second}))
    clock.move(29)
    variables.secrets.refresh_if_due()
    assert variables.environ["KEY"] == first
    clock.move(2)
    variables.secrets.refresh_if_due()
    assert variables.environ["KEY"] == second


def test_secret_refresh_that_fails_for_long_is_logged_as_error(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter(["value-of-long"])

    def read(service: str, name: str) -> str:
        try:
            return next(answers)
        except StopIteration:
            raise ConfigurationError("not found.") from None

    environ: dict[str, str] = {}
    environment = AgentEnvironment(declared(tmp_path, KEY="k"), clock, read, environ=environ, start=now)
    environment.apply()
    levels = []
    for seconds in (301, 31, 1800):
        clock.move(seconds)
        caplog.clear()
        environment.refresh_if_due()
        own = [record for record in caplog.records if record.name == "aion_core.bootstrap.agent_environment"]
        levels.append(own[0].levelname)
    assert levels == ["WARNING", "WARNING", "ERROR"]
    assert environ == {"KEY": "value-of-long"}


def test_turn_never_waits_for_secret_refresh(tmp_path: Path, clock: ManualClock) -> None:
    may_answer, has_set = threading.Event(), threading.Event()
    values = iter(["value-before", "value-after"])

    def read(service: str, name: str) -> str:
        value = next(values)
        if value == "value-after":
            assert may_answer.wait(60)
        return value

    class Environ(dict[str, str]):
        def __setitem__(self, name: str, value: str) -> None:
            super().__setitem__(name, value)
            if value == "value-after":
                has_set.set()

    environ = Environ()
    environment = AgentEnvironment(declared(tmp_path, KEY="k"), clock, read, environ=environ)
    environment.apply()
    clock.move(301)
    environment.refresh_if_due()
    # Call it again, as for a second turn, while the first read still waits for AWS: it must not start another read.
    environment.refresh_if_due()
    assert environ == {"KEY": "value-before"}
    may_answer.set()
    assert has_set.wait(60)
    assert environ == {"KEY": "value-after"}


def test_slow_secret_refresh_does_not_replace_newer_value(tmp_path: Path, clock: ManualClock) -> None:
    values = iter(["value-0", "value-1", "value-2"])
    begun: list[Callable[[], None]] = []
    environ: dict[str, str] = {}
    environment = AgentEnvironment(
        declared(tmp_path, KEY="k"), clock, lambda service, name: next(values), environ=environ, start=begun.append
    )
    environment.apply()
    for _ in range(2):
        clock.move(301)
        environment.refresh_if_due()
    frozen, newer = begun
    newer()
    frozen()
    assert environ == {"KEY": "value-1"}


def test_error_of_missing_secret_names_remedy(tmp_path: Path, aws: SecretStore, clock: ManualClock) -> None:
    name = unique()
    assert Variables(tmp_path, clock, A=name, B=f"ssm:/{name}").problems() == [
        f"A: secret {name}: not found. Create it in this region, or correct its name in aion.yaml.",
        f"B: secret ssm:/{name}: not found. Create it in this region, or correct its name in aion.yaml.",
    ]


def test_error_for_secret_without_permission_names_template_parameter(
    tmp_path: Path, aws: SecretStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = unique()
    aws.put("secret", name, "value-of-nobody")
    aws.put("parameter", name, "value-of-nobody")
    with aws.without_permissions(name, monkeypatch):
        assert Variables(tmp_path, clock, A=name, B=f"ssm:/{name}").problems() == [
            f"A: secret {name}: AccessDenied. Add its ARN to the template parameter AgentSecrets.",
            f"B: secret ssm:/{name}: AccessDenied. Add its ARN to the template parameter AgentSecrets.",
        ]


@contextmanager
def answering(status: int, answer: dict[str, str]) -> Iterator[str]:
    """Run a server that sends the same AWS response to every request."""

    class AnsweringHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), AnsweringHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


REFUSALS = {
    "Access to KMS is not allowed": "Name the KMS key that encrypts it in the template parameter AgentSecretsKey.",
    "User: r is not authorized to perform: kms:Decrypt on resource: k": "Name the KMS key that encrypts it in",
    "User: r is not authorized to perform: secretsmanager:GetSecretValue on resource: my-kms": "Add its ARN to",
}


@pytest.mark.parametrize("sentence", REFUSALS)
def test_error_tells_missing_kms_permission_from_missing_secret_permission(
    tmp_path: Path, aws: SecretStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, sentence: str
) -> None:
    with answering(400, {"__type": "AccessDeniedException", "Message": sentence, "message": sentence}) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        (problem,) = Variables(tmp_path, clock, A="k").problems()
    assert REFUSALS[sentence] in problem
    assert sentence not in problem


UNUSABLE = {
    "hunter2-is-no-json": ("#a", "it is not a JSON object with the key 'a'. Correct it, or remove #a."),
    '["hunter2"]': ("#a", "it is not a JSON object"),
    '{"b": "hunter2"}': ("#a", "its JSON object has no key 'a'. Correct aion.yaml, or add the key to the secret."),
    '{"a": {"b": "hunter2"}}': ("#a", "the value of its key 'a' is neither text nor a number."),
    '{"a": ""}': ("#a", "it is empty. Set its value."),
    '{"a": "hunter2\\u0000"}': ("#a", "it has a character not allowed in an environment variable."),
    '{"a": "hunter2\\ud800"}': ("#a", "it has a character not allowed in an environment variable."),
    "\n": ("", "it is empty. Set its value."),
}


@pytest.mark.parametrize("text", UNUSABLE)
def test_error_names_unusable_secret_but_not_its_value(
    tmp_path: Path, aws: SecretStore, clock: ManualClock, text: str
) -> None:
    name = unique()
    aws.put("secret", name, text)
    key, said = UNUSABLE[text]
    (problem,) = Variables(tmp_path, clock, A=f"{name}{key}").problems()
    assert problem.startswith(f"A: secret {name}: {said}")
    assert "hunter2" not in problem


def test_binary_agent_secret_is_refused(tmp_path: Path, aws: SecretStore, clock: ManualClock) -> None:
    name = unique()
    aws.secrets.create_secret(Name=name, SecretBinary=b"\x00hunter2")
    assert Variables(tmp_path, clock, A=name).problems() == [f"A: secret {name}: it is binary, but must be text."]


def test_unreachable_aws_is_named_in_secret_error(
    tmp_path: Path, aws: SecretStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert Variables(tmp_path, clock, A="k").problems() == [
        "A: secret k: AWS returned an error (EndpointConnectionError)."
    ]


def test_missing_region_is_named_in_secret_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(
        ConfigurationError, match="AWS clients for secrets cannot be created: You must specify a region"
    ):
        read_from_aws(declared(tmp_path, A="k").secrets.values())


def test_environment_variable_precedes_its_secret(tmp_path: Path, clock: ManualClock) -> None:
    file = tmp_path / "aion.yaml"
    file.write_text(
        "aion: {environment: {LEVEL: low, MODE: fast}, secrets: {KEY: k, EMPTY: e}, agents: {a: {path: a.py}}}"
    )
    asked = []

    def read(service: str, name: str) -> str:
        asked.append(name)
        return f"secret-{name}"

    environ = {"LEVEL": "high", "KEY": "of-the-process", "EMPTY": ""}
    AgentEnvironment(read_deployment_config(file), clock, read, environ=environ).apply()
    assert environ == {"LEVEL": "high", "MODE": "fast", "KEY": "of-the-process", "EMPTY": "secret-e"}
    assert asked == ["e"]


def test_disabled_secrets_leave_variables_unset(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("AION_TEST_FREE", raising=False)
    name = f"K{uuid4().hex}"
    said = declared(tmp_path, **{name: "k"})
    for environ in ({"AION_SECRETS": "off"}, {"AWS_SAM_LOCAL": "true"}):
        settings = Settings.from_environ({"AION_STORE": "memory", **environ})
        agent_environment(said, settings, clock).apply()
        assert name not in os.environ
        assert f"Not set, because a process on this machine reads no secrets: {name}. Set" in caplog.text
        caplog.clear()


AGENT = """
import os
from typing import TypedDict
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph

AT_IMPORT = os.environ["{name}"], os.environ["{name}_MODE"]

def answer(state):
    return {{"messages": [AIMessage(f"{{AT_IMPORT[0][-4:]}} {{AT_IMPORT[1]}} {{os.environ['{name}'][-4:]}}")]}}

graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").add_edge("answer", END)
"""


async def test_agent_can_read_secret_variables_at_import(
    tmp_path: Path, aws: SecretStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"K{uuid4().hex}"
    for each in (name, f"{name}_MODE"):
        # Let monkeypatch remove the variable after the test, because the app sets it in the process's environment.
        monkeypatch.setenv(each, "")
        monkeypatch.delenv(each)
    aws.put("secret", name, f"{unique()}-1st")
    (tmp_path / "agent.py").write_text(AGENT.format(name=name))
    aion = {"environment": {f"{name}_MODE": "fast"}, "secrets": {name: name}, "agents": {"a": {"path": "agent.py"}}}
    (tmp_path / "aion.yaml").write_text(json.dumps({"aion": aion}))
    app = build_app(Settings.from_environ({"AION_STORE": "memory", "AION_CONFIG": str(tmp_path / "aion.yaml")}))
    async with http(app) as client:
        answer = (await client.post("/", json=send("hello"))).json()
    assert answer["result"]["task"]["status"]["message"]["parts"][0]["text"] == "-1st fast -1st"


# --- A developer's .env, in `sam local` ---


def test_developers_variables_precede_all_others(tmp_path: Path, clock: ManualClock) -> None:
    file = tmp_path / "aion.yaml"
    own = {"TABLE": "from aion.yaml", "MODEL": "small", "MODE": "fast"}
    file.write_text(json.dumps({"aion": {"environment": own, "agents": {"a": {"path": "a.py"}}}}))
    environ = {"TABLE": "of the container"}
    given, local = {"MODEL": "of the template"}, {"TABLE": "notes", "MODEL": "large"}
    AgentEnvironment(read_deployment_config(file), clock, None, given=given, local=local, environ=environ).apply()
    assert environ == {"TABLE": "notes", "MODEL": "large", "MODE": "fast"}


def test_developers_secrets_reach_agent_and_stay_out_of_log(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name, key = f"K{uuid4().hex}", unique()
    monkeypatch.setenv(name, "")
    monkeypatch.delenv(name)
    local = json.dumps({name: key})
    # AION_SECRETS is on, but the value makes reading AWS unnecessary.
    settings = Settings.from_environ({"AION_STORE": "memory", "AION_LOCAL_ENVIRONMENT": local})
    log.install()
    agent_environment(declared(tmp_path, **{name: "k"}), settings, clock).apply()
    assert os.environ[name] == key
    logging.getLogger("an.author").warning("The key is %s, from %s.", key, local)
    assert key not in caplog.text
    assert "The key is" in caplog.text


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("AION_LOCAL_ENVIRONMENT", "AION_LOCAL_ENVIRONMENT"),
        ("The template parameter AgentEnvironment", "AION_AGENT_ENVIRONMENT"),
    ],
)
def test_error_of_invalid_variables_names_their_source(
    tmp_path: Path, clock: ManualClock, source: str, name: str
) -> None:
    settings = Settings.from_environ({"AION_STORE": "memory", name: "[]"})
    with pytest.raises(ConfigurationError, match=f"^{source} is not a JSON object"):
        agent_environment(declared(tmp_path), settings, clock)


@each_row(
    ("text", "told"),
    [
        ('{"TABLE": hidden}', "is not JSON"),
        ('["TABLE"]', "is not a JSON object"),
        ('{"AION_TABLE": "mine"}', "sets 'AION_TABLE': names that begin with AION_ are aion's own"),
        ('{"AWS_REGION": "mars"}', "sets 'AWS_REGION': Lambda sets this variable"),
        ('{"PYTHONPATH": "/tmp"}', "sets 'PYTHONPATH'"),
        ('{"my table": "notes"}', "sets 'my table'"),
        ('{"LIMIT": 5}', 'the value of LIMIT is not a text. Put it in quotes: "LIMIT": "…"'),
        ('{"TABLE": "a\\u0000b"}', "the value of TABLE is not a text"),
    ],
)
def test_invalid_template_variables_are_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match="The template parameter AgentEnvironment") as refused:
        given_variables(text)
    assert told in str(refused.value)
    assert "hidden" not in str(refused.value)
