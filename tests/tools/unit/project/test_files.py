"""Files of a new project: their syntax, and the values filled in."""

import json
import platform
import re
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from starlette.responses import Response

from aion_core.loading.deployment import read_deployment_config
from aion_tools.project.files import (
    CONTENTS,
    OBJECTS,
    SCHEMA,
    Project,
    rendered,
)
from aion_tools.project.origin import Origin, recorded
from aion_tools.project.tools import PIP
from aion_tools.sam_local.env_file import PLAIN
from aion_tools.template.file import parsed
from aion_tools.testing import serve
from tests.support.listening import listening

WHEEL = recorded("", is_local=True)
GIT = Origin(
    '{ git = "https://example.com/aion.git" }', "https://example.com/aion.git", "@ git+https://example.com/aion.git"
)
EACH = pytest.mark.parametrize("framework", OBJECTS)


def files(name: str = "my-agent", framework: str = "langgraph", origin: Origin | None = None) -> dict[str, str]:
    return rendered(Project(name, framework, origin or Origin()))


@EACH
def test_project_files_contain_no_placeholder(framework: str) -> None:
    for path, text in files(framework=framework, origin=WHEEL).items():
        left = [line for line in text.splitlines() if "@" in line and any(f"@{key}@" in line for key in KEYS)]
        assert not left, path


KEYS = ("name", "title", "object", "schema", "api_key", "architecture", "dependencies", "sources", "install", "run")


@EACH
@pytest.mark.parametrize("name", ["yes", "Agent_2"])
def test_aion_yaml_declares_one_agent(framework: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "aion.yaml").write_text(files(name, framework)["aion.yaml"])
    [agent] = read_deployment_config(tmp_path / "aion.yaml").agents.values()
    assert agent.path == f"agent.py:{OBJECTS[framework]}"
    assert agent.name
    assert agent.name.lower() == name.replace("-", " ").replace("_", " ").lower()


@pytest.mark.parametrize(
    ("framework", "wanted"),
    [("langgraph", "aion-lambda[langgraph]>="), ("adk", "aion-lambda[adk]>="), ("executor", "aion-lambda[api]>=")],
)
def test_pyproject_of_new_project_requires_only_chosen_framework(framework: str, wanted: str) -> None:
    read = tomllib.loads(files(framework=framework)["pyproject.toml"])
    required, *others = read["project"]["dependencies"]
    assert others == (["langchain>=1,<2"] if framework == "langgraph" else [])
    assert required.startswith(wanted)
    assert "aion-lambda[local]" in read["dependency-groups"]["dev"]
    assert read["tool"]["uv"] == {"package": False}


def test_pyproject_of_new_project_names_wheel_in_project() -> None:
    read = tomllib.loads(files(origin=WHEEL)["pyproject.toml"])
    assert read["tool"]["uv"]["sources"] == {"aion-lambda": {"path": WHEEL.wheel}}
    assert "vendor" not in "".join(files().values())


@EACH
def test_project_is_short(framework: str) -> None:
    """The author owns every line. `aion new` adds template.yaml, with a limit of its own, and uv.lock."""
    made = files(framework=framework, origin=WHEEL)
    assert len(made["agent.py"].splitlines()) <= 40
    assert sum(len(text.splitlines()) for path, text in made.items() if path != "template.yaml") <= 350


@EACH
def test_project_files_name_only_files_of_project(framework: str) -> None:
    made = files(framework=framework, origin=WHEEL)
    known = {*made, "uv.lock", ".env", SCHEMA, ".aion/stacks/template.yaml", PLAIN, WHEEL.wheel}
    for path, text in made.items():
        named = re.findall(r"(?<![\w/.])(?:[.\w-]+/)*[.\w-]*\.(?:py|yaml|yml|toml|md|lock|whl|json)\b", text)
        assert set(named) <= known, path


def test_samconfig_has_stacks_of_the_project() -> None:
    read = tomllib.loads(files("my_agent")["samconfig.toml"])
    stacks = {stage: read[stage]["deploy"]["parameters"]["stack_name"] for stage in ("default", "dev", "prod")}
    assert stacks == {"default": "my-agent-dev", "dev": "my-agent-dev", "prod": "my-agent-prod"}
    assert {read[stage]["deploy"]["parameters"]["tags"][0] for stage in stacks} == {"app=my_agent"}


def test_workflow_gets_aws_credentials_only_in_deploy_job() -> None:
    workflow = yaml.safe_load(files()[".github/workflows/deploy.yml"])
    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in workflow["jobs"]["test"]
    deploy = workflow["jobs"]["deploy"]
    assert deploy["permissions"]["id-token"] == "write"
    assert deploy["needs"] == "test"
    [role] = [step["with"]["role-to-assume"] for step in deploy["steps"] if "role-to-assume" in step.get("with", {})]
    assert role == "${{ vars.AWS_ROLE_ARN }}"
    assert deploy["steps"][-1]["run"] == "uv run aion deploy --env prod --yes"


@pytest.mark.parametrize(
    ("origin", "named"),
    [
        (Origin(), f"'{Origin().requirement('local')}'"),
        (WHEEL, f"'./{WHEEL.wheel}[local]'"),
        (GIT, "'aion-lambda[local] @ git+https://example.com/aion.git'"),
    ],
    ids=["index", "wheel", "git"],
)
def test_github_workflow_of_pip_project_installs_by_pip(origin: Origin, named: str) -> None:
    """pip refuses one package from two sources, so both requirements for aion-lambda must name the same source."""
    project = Project("my-agent", "langgraph", origin, tool=PIP)
    workflow = yaml.safe_load(rendered(project)[".github/workflows/deploy.yml"])
    for job, last in (("test", ".venv/bin/pytest"), ("deploy", ".venv/bin/aion deploy --env prod --yes")):
        commands = [step["run"] for step in workflow["jobs"][job]["steps"] if "run" in step]
        assert commands == ["python -m venv .venv", f".venv/bin/pip install -r requirements.txt {named}", last]


def test_gitignore_excludes_key_files() -> None:
    lines = files()[".gitignore"].splitlines()
    assert {".env", ".env.*", "!.env.example", ".aion/", ".aws-sam/", ".venv/"} <= set(lines)


def test_each_project_file_is_listed_with_its_purpose() -> None:
    assert set(files()) == CONTENTS.keys() - {"uv.lock", "vendor/"}


def test_commented_out_keys_of_aion_yaml_are_valid(tmp_path: Path) -> None:
    """Remove the `#` before a commented-out key: the file is still valid."""
    text = files()["aion.yaml"]
    opened = re.sub(r"^( *)# (secrets:|  \w+:)", r"\1\2", text, flags=re.MULTILINE)
    (tmp_path / "aion.yaml").write_text(opened)
    declared = read_deployment_config(tmp_path / "aion.yaml")
    assert list(declared.secrets) == ["OPENAI_API_KEY"]


@pytest.mark.parametrize(("machine", "architecture"), [("x86_64", "x86_64"), ("aarch64", "arm64"), ("arm64", "arm64")])
def test_template_has_processor_of_this_machine(
    machine: str, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    application = parsed(files()["template.yaml"])["Resources"]["Aion"]
    assert application["Properties"]["Parameters"]["Architecture"] == architecture


@pytest.fixture(params=list(OBJECTS))
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    files = rendered(Project("my-agent", request.param, Origin()))
    for path in ("agent.py", "aion.yaml"):
        (tmp_path / path).write_text(files[path])
    return tmp_path / "aion.yaml"


async def test_project_example_answers_and_streams(config: Path) -> None:
    async with serve(config) as client:
        assert client.card.name == "My agent"
        assert [skill.id for skill in client.card.skills] == ["count-words"]
        first = await client.ask("How many words are these?")
        second = await client.ask("Hello", context_id=first.context_id)
    for reply, expected in ((first, "Your message has 5 words."), (second, "Your message has 1 word.")):
        assert (reply.state, reply.text, "".join(reply.chunks)) == ("completed", expected, expected)
        assert len(reply.chunks) > 1


def agent_of(folder: Path, framework: str) -> ModuleType:
    """Import the agent.py of a new project."""
    (folder / "agent.py").write_text(files(framework=framework)["agent.py"])
    spec = spec_from_file_location("agent_of_new_project", folder / "agent.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("framework", "key", "model"),
    [("langgraph", "OPENAI_API_KEY", "gpt-5-mini"), ("adk", "GOOGLE_API_KEY", "gemini-2.5-flash")],
)
def test_project_example_uses_real_model_with_key(
    framework: str, key: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = agent_of(tmp_path, framework).model
    assert type(scripted).__name__.startswith("Scripted")
    monkeypatch.setenv(key, "a-key")
    chosen = agent_of(tmp_path, framework).model
    assert getattr(chosen, "model_name", chosen) == model


async def test_executor_of_project_streams_text_of_openai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["Hello", " there"]
    events = [
        {"type": "response.output_text.delta", "delta": text, "sequence_number": number, "item_id": "m", "output_index": 0, "content_index": 0, "logprobs": []}
        for number, text in enumerate(texts)
    ]  # fmt: skip
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    with listening(Response(body, media_type="text/event-stream")) as url:
        monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        assert [piece async for piece in agent_of(tmp_path, "executor").answer("Hi")] == texts
