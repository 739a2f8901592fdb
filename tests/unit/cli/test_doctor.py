"""`aion doctor`, run as a person runs it: here, on a stack of the emulator, and on servers that are and are not well."""

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from aion_core.aws.stacks import DOMAIN, OUTPUTS, PARAMETERS, URLS
from aion_core.bootstrap import build_app
from aion_core.cli.checks.here import _python as python_check
from aion_core.local.stack import LocalStack
from aion_core.ports.schema import INDEXES, TTL_ATTRIBUTE
from aion_core.settings import Settings
from aion_core.template.reader import Place, Template
from tests.support import operating
from tests.support.issuer import issuing
from tests.support.operating import EventBroadcast

OPEN = "aion: {agents: {helper: {path: agent.py, name: Helper}}}"
AGENT = """
from langgraph.graph import START, MessagesState, StateGraph
graph = StateGraph(MessagesState).add_node("a", lambda state: {}).add_edge(START, "a")
"""


@pytest.fixture
def run() -> EventBroadcast:
    run = operating.runs({})
    return lambda *arguments, **options: run("doctor", *arguments, **options)


def looked(run: EventBroadcast, *arguments: object) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code, and what was said of each thing."""
    ran = run(*arguments, "--json")
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return ran.exit_code, {each["name"]: each for each in json.loads(ran.stdout)}


def written(folder: Path, text: str, **files: str) -> Path:
    config = folder / "aion.yaml"
    config.write_text(text, encoding="utf-8")
    for name, code in files.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return config


def test_here_each_agent_is_loaded_in_turn_and_its_framework_named(run: EventBroadcast, tmp_path: Path) -> None:
    config = written(tmp_path, OPEN.replace("agent.py", "fine_agent.py"), fine_agent=f"print('noise')\n{AGENT}")
    with operating.taken_port() as taken:
        code, said = looked(run, "--config", config, "--no-template", "--port", taken)
    assert code == 0
    assert "is a LangGraph graph, loaded in" in said["agent helper"]["said"]
    assert said["port"]["status"] == "warning"
    assert "`aion dev --port 8001`" in said["port"]["do"]
    ran = run("--config", config, "--no-template", "--port", 0)
    assert ran.stdout.splitlines()[-1].endswith(", 0 FAILED.")
    assert "noise" not in ran.stdout


def test_here_one_agent_that_does_not_load_fails_and_the_others_are_looked_at(
    run: EventBroadcast, tmp_path: Path
) -> None:
    text = "aion: {agents: {bad: {path: bad_agent.py}, good: {path: good_agent.py}}}"
    config = written(tmp_path, text, bad_agent="import no_such_module\n", good_agent=AGENT)
    code, said = looked(run, "--config", config, "--no-template")
    assert code == 1
    assert said["agent bad"]["status"] == "FAILED"
    assert said["agent bad"]["said"] == (
        "bad_agent.py cannot be imported: ModuleNotFoundError: No module named 'no_such_module' "
        "(bad_agent.py, line 1: import no_such_module)."
    )
    assert said["agent bad"]["do"].startswith("Run `aion add no_such_module`.")
    assert said["agent good"]["status"] == "ok"


def test_doctor_reads_langgraph_json(run: EventBroadcast, tmp_path: Path) -> None:
    written(tmp_path, OPEN, graph=f"from shared_of_doctor import VALUE\n{AGENT}")
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "shared_of_doctor.py").write_text("VALUE = 1\n")
    config = tmp_path / "langgraph.json"
    config.write_text('{"graphs": {"mine": "./graph.py:graph"}, "dependencies": ["./libs"]}')
    code, said = looked(run, "--config", config, "--no-template")
    assert code == 0
    assert said["agent mine"]["said"].startswith("graph.py:graph is a LangGraph graph")


def test_here_every_mistake_in_aion_yaml_is_said_with_its_key(run: EventBroadcast, tmp_path: Path) -> None:
    config = written(tmp_path, "aion: {agents: {a: {path: 7, nmae: x}, b: {}}}")
    ran = run("--config", config, "--no-template")
    assert ran.exit_code == 1
    lines = [line for line in ran.stdout.splitlines() if line.startswith("FAILED")]
    assert len(lines) == 3
    for key in ("aion.agents.a.path", "aion.agents.a.nmae", "aion.agents.b.path is missing"):
        assert any(key in line for line in lines), key


@pytest.fixture(scope="module")
def own() -> Iterator[LocalStack]:
    # Broken here and there: nobody else's.
    with LocalStack.start("template.yaml") as stack:
        yield stack


def test_a_deployments_resources_are_looked_at_and_what_is_wrong_with_each_is_said(own: LocalStack) -> None:
    name = operating.registered(
        own, BasicUsersSecret="arn:aws:secretsmanager:us-east-1:123456789012:secret:none-AbCdEf"
    )
    table, dynamodb = own.physical_id("Table"), own.client("dynamodb")
    recovery = {"PointInTimeRecoveryEnabled": True}
    dynamodb.update_continuous_backups(TableName=table, PointInTimeRecoverySpecification=recovery)
    run = operating.runs(operating.environ_of(own))

    def looked_at() -> tuple[int, dict[str, dict[str, str]]]:
        return looked(lambda *arguments: run("doctor", *arguments), "--stack", name, "--config", "/nowhere.yaml")

    code, said = looked_at()
    assert {each: said[each]["status"] for each in said} == {
        "table": "ok",
        "table's backup": "ok",
        "bucket": "ok",
        "task queue": "ok",
        "push queue": "ok",
        "key": "ok",
        "users": "FAILED",
    }
    assert code == 1
    dynamodb.update_table(TableName=table, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "by_agent"}}])
    dynamodb.update_time_to_live(
        TableName=table, TimeToLiveSpecification={"AttributeName": "expires", "Enabled": False}
    )
    dynamodb.update_continuous_backups(
        TableName=table, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": False}
    )
    own.client("s3").put_bucket_versioning(
        Bucket=own.physical_id("Blobs"), VersioningConfiguration={"Status": "Suspended"}
    )
    kms = own.client("kms")
    kms.disable_key(
        KeyId=kms.describe_key(KeyId=own.environment("ApiFunction")["AION_KMS_KEY"])["KeyMetadata"]["KeyId"]
    )
    own.client("sqs").send_message(QueueUrl=own.physical_id("TaskDeadLetters"), MessageBody="x")
    own.client("sqs").delete_queue(QueueUrl=own.physical_id("PushQueue"))
    code, said = looked_at()
    assert code == 1
    assert {each: said[each]["status"] for each in said if each != "users"} == {
        "table": "FAILED",
        "table's backup": "warning",
        "bucket": "warning",
        "task queue": "warning",
        "push queue": "FAILED",
        "key": "FAILED",
    }
    for words in ("no index 'by_agent'", "time to live"):
        assert words in said["table"]["said"]
    assert "1 lie in its dead letters" in said["task queue"]["said"]
    assert "aion dlq list" in said["task queue"]["do"]


def test_what_is_asked_of_the_table_is_what_the_template_makes() -> None:
    template = Template(Path("template.yaml").resolve(), Place("123456789012", "us-east-1", "https://sqs", "gate"))
    table = template.resolved("Table")
    assert table["TimeToLiveSpecification"] == {"AttributeName": TTL_ATTRIBUTE, "Enabled": True}
    made = {
        each["IndexName"]: tuple(key["AttributeName"] for key in each["KeySchema"])
        for each in table["GlobalSecondaryIndexes"]
    }
    assert made == {index.name: (index.partition, index.sort) for index in INDEXES}


def test_what_a_stack_is_asked_for_it_has() -> None:
    template = Template(Path("template.yaml").resolve(), Place("123456789012", "us-east-1", "https://sqs", "gate"))
    assert {*OUTPUTS, *URLS} <= template.document["Outputs"].keys()
    assert {*PARAMETERS, DOMAIN} <= template.document["Parameters"].keys()


def test_a_stack_with_a_domain_is_asked_there(own: LocalStack) -> None:
    """As its function says where it is: the card names the domain, and the API's own address is nobody's."""
    run = operating.runs(operating.environ_of(own))
    name = operating.registered(own, "aion-domain", BaseUrl="", DomainName="agents.example.invalid")
    _, said = looked(lambda *arguments: run("doctor", *arguments), "--stack", name, "--config", "/nowhere.yaml")
    assert said["reachability"]["said"].startswith("https://agents.example.invalid does not answer")


def test_a_stack_that_is_not_there_is_said(own: LocalStack) -> None:
    failed = operating.runs(operating.environ_of(own))("doctor", "--stack", "nobodys")
    assert "no stack 'nobodys'" in operating.refusal(failed)


# ── By its URL ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Uvicorn:
    """The app, under uvicorn in a thread."""

    def __init__(self, folder: Path, text: str, **environ: str) -> None:
        with operating.taken_port() as port:
            self.url = f"http://127.0.0.1:{port}"
        given = {
            "AION_STORE": "memory",
            "AION_CONFIG": str(written(folder, text)),
            "AION_BASE_URL": self.url,
            **environ,
        }
        app = build_app(Settings.from_environ(given))
        self._server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="critical"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> str:
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.02)
        return self.url

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()


def test_a_server_that_is_well_is_said_to_be_at_both_paths_of_its_card(run: EventBroadcast, tmp_path: Path) -> None:
    with _Uvicorn(tmp_path, OPEN) as url:
        code, said = looked(run, "--url", url, "--config", "/nowhere.yaml")
    assert (code, {each["status"] for each in said.values()}) == (0, {"ok"})
    assert "Helper" in said["card at /.well-known/agent-card.json"]["said"]
    assert url in said["card at /.well-known/agent.json"]["said"]
    assert "Nobody is asked" in said["callers"]["said"]


def test_a_card_that_names_another_place_fails_and_it_is_said_what_to_deploy(
    run: EventBroadcast, tmp_path: Path
) -> None:
    with _Uvicorn(tmp_path, OPEN, AION_BASE_URL="http://127.0.0.1:8000") as url:
        code, said = looked(run, "--url", url, "--config", "/nowhere.yaml")
    assert code == 1
    wrong = said["card at /.well-known/agent-card.json"]
    assert wrong["said"] == f"It names http://127.0.0.1:8000, and this is {url}."
    assert f"BaseUrl={url}" in wrong["do"]


def test_what_callers_are_asked_for_is_said_and_an_issuers_keys_are_read(run: EventBroadcast, tmp_path: Path) -> None:
    with issuing() as issuer:
        issuer.add("k-1")
        schemes = (
            f"{{login: {{type: bearer-jwt, issuer: '{issuer.url}', audience: a, jwks_url: '{issuer.url}/jwks.json'}}}}"
        )
        text = f"aion: {{security: {{schemes: {schemes}}}, agents: {{helper: {{path: agent.py}}}}}}"
        with _Uvicorn(tmp_path, text) as url:
            code, said = looked(run, "--url", url, "--config", tmp_path / "aion.yaml")
            assert code == 0
            assert said["callers"]["said"].startswith("Callers are asked for Bearer")
            assert said[f"keys of {issuer.url}"]["status"] == "ok"
            issuer.says["/jwks.json"] = {"no": "keys"}
            code, said = looked(run, "--url", url, "--config", tmp_path / "aion.yaml")
    assert code == 1
    assert "no JWK set" in said[f"keys of {issuer.url}"]["said"]


@pytest.fixture
def gateway() -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """Answers as API Gateway with IAM does: 403 to who has not signed, else the card of another place."""
    seen: list[str] = []
    headers: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            signed = seen[-1].startswith("AWS4-HMAC-SHA256")
            body = json.dumps({"name": "x", "url": url} if signed else {"message": "Missing Authentication Token"})
            self.send_response_only(200 if signed else 403)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield url, seen, headers
        server.shutdown()


def test_behind_iam_it_asks_by_signed_requests(gateway: tuple[str, list[str], dict[str, str]]) -> None:
    url, seen, headers = gateway
    headers["Date"] = "Mon, 01 Jan 2024 00:00:00 GMT"
    signing = {"AWS_ACCESS_KEY_ID": "AKIAME", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-west-1"}
    run = operating.runs(signing | {"AWS_DEFAULT_REGION": "eu-west-1"})
    code, said = looked(lambda *a: run("doctor", *a), "--url", url, "--config", "/nowhere.yaml")
    assert said["card at /.well-known/agent-card.json"]["status"] == "ok"
    assert "signed for AWS IAM" in said["callers"]["said"]
    assert "Credential=AKIAME/" in seen[-1]
    assert "/eu-west-1/execute-api/aws4_request" in seen[-1]
    # And this machine's clock is years off.
    assert (code, said["clock"]["status"]) == (1, "FAILED")


def test_a_url_where_nobody_answers_fails_in_a_sentence(run: EventBroadcast) -> None:
    with operating.taken_port() as port:
        pass
    code, said = looked(run, "--url", f"http://127.0.0.1:{port}", "--config", "/nowhere.yaml")
    assert (code, list(said)) == (1, ["reachability"])


def test_here_each_variable_of_the_agents_is_told(
    run: EventBroadcast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DOCTORS_KEY", "DOCTORS_TOKEN", "DOCTORS_MODEL"):
        monkeypatch.delenv(name, raising=False)
    text = """aion:
  environment: {DOCTORS_MODEL: small}
  secrets: {DOCTORS_KEY: openai-key, DOCTORS_TOKEN: "ssm:/token"}
  agents: {helper: {path: fine_agent.py}}
"""
    config = written(tmp_path, text, fine_agent=f"import os\nos.environ['DOCTORS_MODEL']\n{AGENT}")
    code, said = looked(run, "--config", config, "--no-template")
    assert code == 0, "what is not set here may be set there"
    assert said["agent helper"]["status"] == "ok", "its code finds what aion.yaml and .env say"
    assert said["environment"]["status"] == "warning"
    assert "DOCTORS_TOKEN is not set: its secret (ssm:/token) is not read from AWS" in said["environment"]["said"]
    (tmp_path / ".env").write_text("DOCTORS_KEY=k\nDOCTORS_TOKEN=t\n")
    said = looked(run, "--config", config, "--no-template")[1]
    assert said["environment"]["status"] == "ok"
    assert said["environment"]["said"] == (
        "The agents get DOCTORS_MODEL from aion.yaml, and DOCTORS_KEY, DOCTORS_TOKEN from .env here."
    )
    assert not {"DOCTORS_MODEL", "DOCTORS_KEY"} & os.environ.keys()


def test_doctor_names_variables_that_only_dotenv_has(run: EventBroadcast, tmp_path: Path) -> None:
    text = "aion: {environment: {MODEL: m}, secrets: {KNOWN_KEY: k}, agents: {helper: {path: fine_agent.py}}}"
    config = written(tmp_path, text, fine_agent=AGENT)
    (tmp_path / ".env").write_text("MODEL=n\nKNOWN_KEY=k\nMY_KEY=hunter2\nAWS_PROFILE=me\nOTHER=x\n")
    said = looked(run, "--config", config, "--no-template")[1]["environment"]
    assert said["status"] == "warning"
    assert said["said"] == "MY_KEY, OTHER are only in .env, which is never deployed."
    assert said["do"].startswith("Name it under `secrets` in aion.yaml")


def test_doctor_and_card_find_agent_without_yaml(
    run: EventBroadcast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "found_of_doctor.py").write_text(AGENT)
    (tmp_path / ".env").write_text("MY_KEY=k\n")
    monkeypatch.chdir(tmp_path)
    code, said = looked(run, "--no-template")
    assert code == 0
    assert said["aion.yaml"]["said"] == f"There is none in {tmp_path}. Found there: found_of_doctor.py: graph."
    assert said["aion.yaml"]["do"].startswith("Run `aion init` before you deploy")
    assert said["environment"]["said"] == "MY_KEY is only in .env, which is never deployed."
    assert said["agent found_of_doctor"]["status"] == "ok"
    assert f"1 files of {tmp_path} go into a package" in said["package"]["said"]
    shown = operating.runs({})("card", "show")
    assert json.loads(shown.stdout)["name"] == "found_of_doctor"


def test_doctor_in_a_subfolder_names_the_project(
    run: EventBroadcast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, OPEN)
    (tmp_path / "notes").mkdir()
    monkeypatch.chdir(tmp_path / "notes")
    code, said = looked(run, "--no-template")
    assert code == 1
    assert said["aion.yaml"]["said"] == (
        f"{tmp_path / 'notes'} has no agent. aion.yaml is in {tmp_path}: run it there, or `aion dev ..`."
    )
    assert operating.refusal(operating.runs({})("build")) == f"aion.yaml is in {tmp_path}: run `aion build` there."


@pytest.mark.parametrize(("found", "status"), [("/usr/bin/python3.13", "ok"), (None, "warning")])
def test_doctor_warns_only_without_lambdas_python(found: str | None, status: str) -> None:
    check = python_check((3, 11), found)
    assert check.status == status
    assert ("No Python 3.13 was found" in check.said) is (found is None)


UNBUILDABLE = {
    "poetry": (
        {"pyproject.toml": b"[tool.poetry]\nname = 'x'\n"},
        "pyproject.toml has its dependencies in [tool.poetry]",
    ),
    "no text": ({"requirements.txt": b"caf\xe9\n"}, "is not UTF-8"),
    "no TOML": ({"pyproject.toml": b"[project\n"}, "is not TOML"),
    "old lock": (
        {
            "pyproject.toml": b"[project]\nname = 'x'\nversion = '0'\ndependencies = ['httpx']\n",
            "uv.lock": b'version = 1\nrequires-python = ">=3.11"\n[[package]]\nname = "x"\nversion = "0"\n'
            b'source = { virtual = "." }\n',
        },
        "uv.lock does not have httpx, which pyproject.toml names: run `uv lock`",
    ),
}


@pytest.mark.parametrize("case", UNBUILDABLE)
def test_doctor_fails_where_a_build_would(case: str, run: EventBroadcast, tmp_path: Path) -> None:
    files, words = UNBUILDABLE[case]
    config = written(tmp_path, OPEN.replace("agent.py", "fine_agent.py"), fine_agent=AGENT)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    code, said = looked(run, "--config", config, "--no-template")
    assert code == 1
    assert said["dependencies"]["status"] == "FAILED"
    assert words in said["dependencies"]["said"]


def test_doctor_does_not_call_factory_per_turn(run: EventBroadcast, tmp_path: Path) -> None:
    factory = "def make(config):\n    raise ValueError('of a turn')\n"
    config = written(tmp_path, OPEN.replace("agent.py", "factory_agent.py:make"), factory_agent=factory)
    code, said = looked(run, "--config", config, "--no-template")
    assert code == 0
    assert "is a factory, which is called for each turn and was not called here" in said["agent helper"]["said"]


def test_here_a_secret_in_plain_environment_is_told(run: EventBroadcast, tmp_path: Path) -> None:
    text = "aion: {environment: {OPENAI_API_KEY: of-all, MODEL: m}, agents: {helper: {path: fine_agent.py}}}"
    config = written(tmp_path, text, fine_agent=AGENT)
    said = looked(run, "--config", config, "--no-template")[1]["environment"]
    assert said["said"].startswith("OPENAI_API_KEY in aion.environment: whoever reads the package")
    assert "of-all" not in json.dumps(said)


def test_here_an_unreadable_dotenv_fails(run: EventBroadcast, tmp_path: Path) -> None:
    config = written(tmp_path, OPEN.replace("agent.py", "fine_agent.py"), fine_agent=AGENT)
    (tmp_path / ".env").write_bytes(b"KEY=\xff\n")
    code, said = looked(run, "--config", config, "--no-template")
    assert code == 1
    assert "cannot be read: it is not UTF-8" in said["environment"]["said"]


def test_secrets_of_a_stacks_agents_are_looked_at(tmp_path: Path) -> None:
    with LocalStack.start("template.yaml") as stack:
        secrets, ssm = stack.client("secretsmanager"), stack.client("ssm")
        arn = secrets.create_secret(Name="given-by-pattern", SecretString="hunter2")["ARN"]
        whole = secrets.create_secret(Name="given-whole", SecretString='{"a": "hunter2"}')["ARN"]
        not_given = secrets.create_secret(Name="given-by", SecretString="hunter2")["ARN"]
        ssm.put_parameter(Name="/given", Value="hunter2", Type="SecureString")
        given = [f"{arn[:-6]}??????", whole, ssm.get_parameter(Name="/given")["Parameter"]["ARN"]]
        name = operating.registered(stack, AgentSecrets=",".join(given))
        said = {
            "A": "given-by-pattern",
            "B": "given-whole#a",
            "C": "ssm:/given",
            "D": "given-by",
            "E": "gone",
            "F": "ssm:/gone",
        }
        config = written(tmp_path, json.dumps({"aion": {"secrets": said, "agents": {"a": {"path": "a.py"}}}}))
        run = operating.runs(operating.environ_of(stack))
        code, found = looked(lambda *arguments: run("doctor", *arguments), "--stack", name, "--config", config)
    assert code == 1
    told = {each: found[f"secret of {each}"] for each in said}
    assert {each: told[each]["status"] for each in told} == {
        "A": "ok", "B": "ok", "C": "ok", "D": "FAILED", "E": "FAILED", "F": "FAILED",
    }  # fmt: skip
    assert (
        told["D"]["said"]
        == f"{not_given} is not in the stack's AgentSecrets: the functions that run agents do not start."
    )
    assert "secret:given-by-??????" in told["D"]["do"]
    assert told["D"]["do"].startswith("Deploy with 'AgentSecrets=arn:aws:secretsmanager:us-east-1:")
    assert "ssm:/gone" in told["F"]["said"]
    assert "hunter2" not in json.dumps(found)
