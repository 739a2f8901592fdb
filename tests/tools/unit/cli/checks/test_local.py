"""Checks of this machine and project by `aion doctor`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aion_tools.cli.checks import Status
from aion_tools.cli.checks.local import _python as python_check
from aion_tools.cli.checks.local import check_package, check_template
from aion_tools.template import stacks
from tests.support import operating
from tests.support.operating import RunCommand
from tests.support.server import ROOT
from tests.tools.unit.cli.checks.doctor_command import AGENT, OPEN, run_doctor, written
from tests.tools.unit.package.wheels import EXECUTOR

NESTED = """
Resources:
  Notes: {Type: "AWS::DynamoDB::Table"}
  Aion: {Type: "AWS::Serverless::Application", Properties: {Location: .aion/stacks/template.yaml%s}}
"""


@pytest.fixture
def run() -> RunCommand:
    run = operating.runs({})
    return lambda *arguments, **options: run("doctor", *arguments, **options)


def test_doctor_loads_each_agent(run: RunCommand, tmp_path: Path) -> None:
    config = written(tmp_path, OPEN.replace("agent.py", "fine_agent.py"), fine_agent=f"print('noise')\n{AGENT}")
    with operating.taken_port() as taken:
        code, results = run_doctor(run, "--config", config, "--no-template", "--port", taken)
    assert code == 0
    assert "is a LangGraph graph, loaded in" in results["agent helper"]["message"]
    assert results["port"]["status"] == "warning"
    assert "`aion dev --port 8001`" in results["port"]["next"]
    ran = run("--config", config, "--no-template", "--port", 0)
    assert ran.stdout.splitlines()[-1].endswith(", 0 FAILED.")
    assert "noise" not in ran.stdout


@pytest.mark.parametrize(
    ("docstring", "option", "status"),
    [
        ("", "", "warning"),
        ('"""Counts words."""\n', "", None),
        ("", "description: Add your description here", "warning"),
    ],
)
def test_doctor_warns_of_card_without_description(
    run: RunCommand, tmp_path: Path, docstring: str, option: str, status: str | None
) -> None:
    text = f"aion: {{agents: {{silent: {{path: silent_agent.py, {option}}}}}}}"
    config = written(tmp_path, text, silent_agent=docstring + AGENT)
    code, results = run_doctor(run, "--config", config, "--no-template")
    assert code == 0
    assert results.get("card silent", {"status": None})["status"] == status
    if status is not None:
        assert results["card silent"]["next"] == "Set `description` in aion.yaml, or write a docstring."


NOISE = """
import atexit, os, subprocess
os.write(1, b"written")
subprocess.run(["echo", "echoed"])
atexit.register(print, "printed at exit")
"""


def test_doctor_json_is_free_of_output_of_agents(tmp_path: Path) -> None:
    config = written(tmp_path, OPEN.replace("agent.py", "loud_agent.py"), loud_agent=f"{NOISE}{EXECUTOR}")
    command = [sys.executable, "-m", "aion_tools.cli", "doctor", "--json", "--no-template", "--config", str(config)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert {each["status"] for each in json.loads(ran.stdout)} <= {"ok", "warning"}
    assert [text for text in ("written", "echoed", "printed at exit") if text not in ran.stderr] == []


def test_broken_agent_does_not_stop_other_doctor_checks(run: RunCommand, tmp_path: Path) -> None:
    text = "aion: {agents: {bad: {path: bad_agent.py}, good: {path: good_agent.py}}}"
    config = written(tmp_path, text, bad_agent="import no_such_module\n", good_agent=AGENT)
    code, results = run_doctor(run, "--config", config, "--no-template")
    assert code == 1
    assert results["agent bad"]["status"] == "FAILED"
    assert results["agent bad"]["message"] == (
        "bad_agent.py cannot be imported: ModuleNotFoundError: No module named 'no_such_module' "
        "(bad_agent.py, line 1: import no_such_module)."
    )
    assert results["agent bad"]["next"].startswith("Run `uv add no_such_module`.")
    assert results["agent good"]["status"] == "ok"


@pytest.mark.parametrize("folder", ["", "docs"])
def test_doctor_without_project_checks_machine_only(
    run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Run it in an empty folder, and in one of the clone: the clone's template is not the user's project."""
    monkeypatch.chdir(ROOT / folder if folder else tmp_path)
    code, results = run_doctor(run)
    assert (code, [*results]) == (1, ["python", "uv", "credentials", "port", "aion.yaml"])
    assert results["aion.yaml"]["next"].endswith("create an agent: `aion new my-agent`.")


def test_doctor_reads_langgraph_json(run: RunCommand, tmp_path: Path) -> None:
    written(tmp_path, OPEN, graph=f"from shared_of_doctor import VALUE\n{AGENT}")
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "shared_of_doctor.py").write_text("VALUE = 1\n")
    config = tmp_path / "langgraph.json"
    config.write_text(
        '{"graphs": {"mine": "./graph.py:graph"}, "dependencies": ["./libs"], "auth": {"path": "./auth.py:auth"}}'
    )
    code, results = run_doctor(run, "--config", config, "--no-template")
    assert code == 0
    assert results["langgraph.json"]["status"] == "warning"
    assert results["langgraph.json"]["message"].startswith("`auth` of langgraph.json protects nothing here: ")
    assert results["agent mine"]["message"].startswith("graph.py:graph is a LangGraph graph")


@pytest.mark.parametrize(
    ("place", "agent"),
    [
        (".", "helper"),
        ("placed_agent.py:graph", "placed_agent"),
        ("langgraph.json", "mine"),
    ],
)
def test_doctor_finds_agents_in_same_places_as_aion_dev(
    run: RunCommand, tmp_path: Path, place: str, agent: str
) -> None:
    written(tmp_path, OPEN.replace("agent.py", "placed_agent.py"), placed_agent=AGENT)
    (tmp_path / "langgraph.json").write_text('{"graphs": {"mine": "./placed_agent.py:graph"}, "dependencies": ["."]}')
    code, results = run_doctor(run, tmp_path / place, "--no-template")
    assert code == 0
    assert [name for name in results if name.startswith("agent ")] == [f"agent {agent}"]
    assert results["package"]["status"] == "ok"
    assert results["aion.yaml"]["status"] == ("ok" if agent == "helper" else "warning")


def test_doctor_names_each_mistake_in_aion_yaml(run: RunCommand, tmp_path: Path) -> None:
    config = written(tmp_path, "aion: {agents: {a: {path: 7, nmae: x}, b: {}}}")
    ran = run("--config", config, "--no-template")
    assert ran.exit_code == 1
    lines = [line for line in ran.stdout.splitlines() if line.startswith("FAILED")]
    assert len(lines) == 3
    for key in ("aion.agents.a.path", "aion.agents.a.nmae", "aion.agents.b.path is missing"):
        assert any(key in line for line in lines), key


def test_doctor_checks_variables_and_secrets_of_agents(
    run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DOCTORS_KEY", "DOCTORS_TOKEN", "DOCTORS_MODEL"):
        monkeypatch.delenv(name, raising=False)
    text = """aion:
  environment: {DOCTORS_MODEL: small}
  secrets: {DOCTORS_KEY: openai-key, DOCTORS_TOKEN: "ssm:/token"}
  agents: {helper: {path: fine_agent.py}}
"""
    config = written(tmp_path, text, fine_agent=f"import os\nos.environ['DOCTORS_MODEL']\n{AGENT}")
    code, results = run_doctor(run, "--config", config, "--no-template")
    assert code == 0, "what is not set here may be set there"
    assert results["agent helper"]["status"] == "ok", "its code finds what aion.yaml and .env say"
    assert results["environment"]["status"] == "warning"
    assert "DOCTORS_TOKEN is not set: its secret (ssm:/token) is not read from AWS" in results["environment"]["message"]
    (tmp_path / ".env").write_text("DOCTORS_KEY=k\nDOCTORS_TOKEN=t\n")
    results = run_doctor(run, "--config", config, "--no-template")[1]
    assert results["environment"]["status"] == "ok"
    assert results["environment"]["message"] == (
        "The agents get DOCTORS_MODEL from aion.yaml, and DOCTORS_KEY, DOCTORS_TOKEN from .env."
    )
    assert not {"DOCTORS_MODEL", "DOCTORS_KEY"} & os.environ.keys()


def test_agents_find_variables_of_projects_template(run: RunCommand, tmp_path: Path) -> None:
    """Give the agent's code the variable that AgentEnvironment sets on AWS, also for a resource of an unknown type."""
    environment = """{"DOCTORS_POOL": "${Pool.Arn}", "DOCTORS_TABLE": "${Notes}"}"""
    (tmp_path / "template.yaml").write_text(NESTED % f", Parameters: {{AgentEnvironment: !Sub '{environment}'}}")
    (tmp_path / ".env").write_text("DOCTORS_TABLE=mine\n")
    code = (
        f"import os\nassert [*map(os.environ.get, ('DOCTORS_POOL', 'DOCTORS_TABLE'))] == ['Pool.Arn', 'mine']\n{AGENT}"
    )
    config = written(tmp_path, "aion: {agents: {helper: {path: fine_agent.py}}}", fine_agent=code)
    results = run_doctor(run, "--config", config, "--no-template")[1]
    assert results["agent helper"]["status"] == "ok", results["agent helper"]
    said = results["environment"]["message"]
    assert said == "The agents get DOCTORS_TABLE from .env, and DOCTORS_POOL from template.yaml."


def test_doctor_names_variables_set_only_in_dotenv(run: RunCommand, tmp_path: Path) -> None:
    text = "aion: {environment: {MODEL: m}, secrets: {KNOWN_KEY: k}, agents: {helper: {path: fine_agent.py}}}"
    config = written(tmp_path, text, fine_agent=AGENT)
    (tmp_path / ".env").write_text("MODEL=n\nKNOWN_KEY=k\nMY_KEY=hunter2\nAWS_PROFILE=me\nOTHER=x\n")
    results = run_doctor(run, "--config", config, "--no-template")[1]["environment"]
    assert results["status"] == "warning"
    assert results["message"] == "MY_KEY, OTHER are only in .env, and .env is never deployed."
    assert results["next"].startswith("Name it under `secrets` in aion.yaml")


def test_doctor_warns_of_project_module_named_like_installed_package(tmp_path: Path) -> None:
    for name in ("a2a/__init__.py", "pydantic.py", "own/__init__.py", "tools/a2a.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine = 1")
    assert [check.message for check in check_package(tmp_path) if check.status == Status.WARNING] == [
        "a2a/__init__.py has the name of the module 'a2a' of an installed package.",
        "pydantic.py has the name of the module 'pydantic' of an installed package.",
    ]


def test_doctor_and_card_find_agent_without_aion_yaml(
    run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "found_of_doctor.py").write_text(AGENT)
    (tmp_path / ".env").write_text("MY_KEY=k\n")
    monkeypatch.chdir(tmp_path)
    code, results = run_doctor(run, "--no-template")
    assert code == 0
    assert results["aion.yaml"]["message"] == f"{tmp_path} has no aion.yaml. Found there: found_of_doctor.py: graph."
    assert results["aion.yaml"]["next"].startswith("Run `aion init` before you deploy")
    assert results["environment"]["message"] == "MY_KEY is only in .env, and .env is never deployed."
    assert results["agent found_of_doctor"]["status"] == "ok"
    assert f"A package contains 1 file of {tmp_path}" in results["package"]["message"]
    shown = operating.runs({})("card", "show")
    assert json.loads(shown.stdout)["name"] == "found_of_doctor"


def test_doctor_in_subfolder_names_project_folder(
    run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, OPEN)
    (tmp_path / "notes").mkdir()
    monkeypatch.chdir(tmp_path / "notes")
    code, results = run_doctor(run, "--no-template")
    assert code == 1
    assert results["aion.yaml"]["message"] == (
        f"{tmp_path / 'notes'} has no agent. aion.yaml is in {tmp_path}: run it there, or `aion dev ..`."
    )
    assert operating.refusal(operating.runs({})("build")) == f"aion.yaml is in {tmp_path}. Run `aion build` there."


@pytest.mark.parametrize(("found", "status"), [("/usr/bin/python3.13", "ok"), (None, "warning")])
def test_doctor_warns_if_lambdas_python_is_missing(found: str | None, status: str) -> None:
    check = python_check((3, 11), found)
    assert check.status == status
    assert ("No Python 3.13 was found" in check.message) is (found is None)


UNBUILDABLE = {
    "no TOML": ({"pyproject.toml": b"[project\n"}, "is not valid TOML"),
    "old lock": (
        {
            "pyproject.toml": b"[project]\nname = 'x'\nversion = '0'\ndependencies = ['httpx']\n",
            "uv.lock": b'version = 1\nrequires-python = ">=3.11"\n[[package]]\nname = "x"\nversion = "0"\n'
            b'source = { virtual = "." }\n',
        },
        "uv.lock does not match pyproject.toml: run `uv lock`",
    ),
}


@pytest.mark.parametrize("case", UNBUILDABLE)
def test_doctor_fails_for_project_that_cannot_be_built(case: str, run: RunCommand, tmp_path: Path) -> None:
    files, words = UNBUILDABLE[case]
    config = written(tmp_path, OPEN.replace("agent.py", "fine_agent.py"), fine_agent=AGENT)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    code, results = run_doctor(run, "--config", config, "--no-template")
    assert code == 1
    assert results["dependencies"]["status"] == "FAILED"
    assert words in results["dependencies"]["message"]


def test_doctor_does_not_call_factory_that_builds_agent_per_turn(run: RunCommand, tmp_path: Path) -> None:
    factory = "def make(config):\n    raise ValueError('of a turn')\n"
    config = written(tmp_path, OPEN.replace("agent.py", "factory_agent.py:make"), factory_agent=factory)
    code, results = run_doctor(run, "--config", config, "--no-template")
    assert code == 0
    assert "is a factory, called for each turn and not called by this check" in results["agent helper"]["message"]


def test_doctor_warns_of_secret_in_plain_environment(run: RunCommand, tmp_path: Path) -> None:
    text = "aion: {environment: {OPENAI_API_KEY: of-all, MODEL: m}, agents: {helper: {path: fine_agent.py}}}"
    config = written(tmp_path, text, fine_agent=AGENT)
    results = run_doctor(run, "--config", config, "--no-template")[1]["environment"]
    assert results["message"].startswith("OPENAI_API_KEY in aion.environment: readers of the package")
    assert "of-all" not in json.dumps(results)


def test_doctor_warns_of_stacks_from_another_aion_version(tmp_path: Path) -> None:
    (tmp_path / "template.yaml").write_text(NESTED % "")
    assert [each.status for each in check_template(tmp_path)] == [Status.OK]
    stacks.write(tmp_path)
    assert [each.status for each in check_template(tmp_path)] == [Status.OK]
    (tmp_path / stacks.FOLDER / "version").write_text("0.0.9\n")
    (found,) = check_template(tmp_path)
    assert (found.status, found.next_step) == (Status.WARNING, "Run `aion stacks`.")
    assert "are from aion-lambda 0.0.9, and" in found.message


def test_doctor_reports_unreadable_template(tmp_path: Path) -> None:
    (tmp_path / "template.yaml").write_text(NESTED % ", Parameters: {Colour: red}")
    (found,) = check_template(tmp_path)
    assert (found.status, found.next_step) == (Status.FAILED, "Fix template.yaml.")
    assert "has no parameter Colour" in found.message
