"""Files of a new project: their syntax, and the values filled in."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from aion_core.loading.deployment import read_deployment_config
from aion_tools.project.files import (
    CONTENTS,
    OBJECTS,
    Project,
    block_of,
    build_rule,
    has_own_rule,
    rendered,
    with_block,
)
from aion_tools.project.origin import Origin
from aion_tools.project.tools import PIP
from aion_tools.template.reader import Place, Template
from aion_tools.testing import AgentClient, serve

WHEEL = Origin('{ path = "/dist/aion.whl" }', "/dist/aion.whl", "@ file:///dist/aion.whl")
EACH = pytest.mark.parametrize("framework", OBJECTS)


def files(name: str = "my-agent", framework: str = "langgraph", origin: Origin | None = None) -> dict[str, str]:
    return rendered(Project(name, framework, origin or Origin()))


@EACH
def test_project_files_contain_no_placeholder(framework: str) -> None:
    for path, text in files(framework=framework, origin=WHEEL).items():
        left = [line for line in text.splitlines() if "@" in line and any(f"@{key}@" in line for key in KEYS)]
        assert not left, path


KEYS = ("name", "title", "object", "requirement", "sources", "build_rule", "model", "origin_note")


@EACH
@pytest.mark.parametrize("name", ["my-agent", "yes", "null", "Agent_2"])
def test_aion_yaml_declares_one_agent(framework: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "aion.yaml").write_text(files(name, framework)["aion.yaml"])
    [agent] = read_deployment_config(tmp_path / "aion.yaml").agents.values()
    assert agent.path == f"agent.py:{OBJECTS[framework]}"
    assert agent.name
    assert agent.name.lower() == name.replace("-", " ").replace("_", " ").lower()


@pytest.mark.parametrize(
    ("framework", "wanted"),
    [("langgraph", "aion-lambda[langgraph]>="), ("adk", "aion-lambda[adk]>="), ("executor", "aion-lambda>=")],
)
def test_pyproject_of_new_project_requires_only_chosen_framework(framework: str, wanted: str) -> None:
    read = tomllib.loads(files(framework=framework)["pyproject.toml"])
    [required] = read["project"]["dependencies"]
    assert required.startswith(wanted)
    assert "aion-lambda[local]" in read["dependency-groups"]["dev"]
    assert read["tool"]["uv"] == {"package": False}


def test_pyproject_of_new_project_names_locally_installed_wheel() -> None:
    read = tomllib.loads(files(origin=WHEEL)["pyproject.toml"])
    assert read["tool"]["uv"]["sources"] == {"aion-lambda": {"path": "/dist/aion.whl"}}
    assert "/dist/aion.whl" in files(origin=WHEEL)["README.md"]
    assert "[tool.uv.sources]" not in files()["README.md"]


def test_samconfig_has_stacks_of_the_project() -> None:
    read = tomllib.loads(files("my_agent")["samconfig.toml"])
    stacks = {stage: read[stage]["deploy"]["parameters"]["stack_name"] for stage in ("default", "dev", "prod")}
    assert stacks == {"default": "my-agent-dev", "dev": "my-agent-dev", "prod": "my-agent-prod"}
    assert {read[stage]["deploy"]["parameters"]["tags"][0] for stage in stacks} == {"app=my_agent"}


def test_template_of_project_is_complete(tmp_path: Path) -> None:
    for path, text in files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    place = Place(account="000000000000", region="us-east-1", endpoint="", stack_name="my-agent-dev")
    template = Template(tmp_path / "template.yaml", place)
    assert template.environment("ApiFunction")["AION_CONFIG"] == "aion.yaml"


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
    [(Origin(), "'aion-lambda[local]'"), (WHEEL, "'aion-lambda[local] @ file:///dist/aion.whl'")],
    ids=["index", "wheel"],
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


def test_makefile_has_build_rule_for_sam() -> None:
    block = block_of(files()["Makefile"])
    assert block is not None
    assert '\t@$(AION) build $* --to "$(ARTIFACTS_DIR)"\n' in block


def test_each_project_file_is_listed_with_its_purpose() -> None:
    listed = {path for path in CONTENTS if path != "uv.lock"}
    assert {"infra/" if path.startswith("infra/") else path for path in files()} == listed


def test_commented_out_keys_of_aion_yaml_are_valid(tmp_path: Path) -> None:
    """Remove the `#` before a commented-out key: the file is still valid."""
    text = files()["aion.yaml"]
    opened = re.sub(r"^( *)# (configuration:|environment:|secrets:|  \w+:)", r"\1\2", text, flags=re.MULTILINE)
    (tmp_path / "aion.yaml").write_text(opened)
    declared = read_deployment_config(tmp_path / "aion.yaml")
    assert declared.agents["agent"].configuration == {"language": "en"}
    assert dict(declared.environment) == {"MODEL": "gpt-5-mini"}
    assert list(declared.secrets) == ["OPENAI_API_KEY"]


OWN = "all:\n\techo all\n"


def test_makefile_build_rule_is_appended_once() -> None:
    text = with_block(OWN, build_rule())
    assert text.startswith(OWN)
    assert block_of(text) == build_rule()
    assert with_block(text, build_rule()) == text


def test_makefile_build_rule_is_replaced_in_place() -> None:
    text = with_block(OWN, build_rule()) + "\nlast:\n\techo last\n"
    other = build_rule().replace("uv run aion", r"uv run \1 aion")
    replaced = with_block(text, other)
    assert replaced == text.replace(build_rule(), other)


def test_authors_makefile_build_rule_is_recognised() -> None:
    assert has_own_rule("build-%:\n\tcp -r . $(ARTIFACTS_DIR)\n")
    assert has_own_rule("build-ApiFunction: x\n\tcp -r . $(ARTIFACTS_DIR)\n")
    assert not has_own_rule(with_block(OWN, build_rule()))
    assert not has_own_rule("build-docs:\n\tmkdocs build\n")


def test_makefile_without_aion_build_rule_is_recognised() -> None:
    assert block_of(OWN) is None


@pytest.fixture(params=list(OBJECTS))
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    files = rendered(Project("my-agent", request.param, Origin()))
    for path in ("agent.py", "aion.yaml"):
        (tmp_path / path).write_text(files[path])
    return tmp_path / "aion.yaml"


async def count(client: AgentClient, text: str, expected: str) -> None:
    reply = await client.ask(text)
    assert (reply.state, reply.text, "".join(reply.chunks)) == ("completed", expected, expected)
    assert len(reply.chunks) > 1


async def test_project_example_answers_and_streams(config: Path) -> None:
    async with serve(config) as client:
        assert client.card.name == "My agent"
        assert [skill.id for skill in client.card.skills] == ["count-words"]
        await count(client, "How many words are these?", "Your message has 5 words.")
        await count(client, "Hello", "Your message has 1 word.")


async def test_project_example_continues_conversation(config: Path) -> None:
    async with serve(config) as client:
        first = await client.ask("one two three")
        second = await client.ask("four", context_id=first.context_id)
    assert second.text == "Your message has 1 word."
