"""docs/models.md: valid aion.yaml, existing parameters, and code with existing names and declared variables."""

import ast
import importlib.util
import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from aion_core.loading.aion_yaml.reading import DeploymentConfig
from aion_core.loading.deployment import read_deployment_config
from aion_core.loading.frameworks import framework_of
from aion_tools.deploy.agent_rights import template_parameters
from aion_tools.dev.environment import local_environment
from aion_tools.template.names import BUILD_PLACE
from aion_tools.template.reader import Template
from tests.support.rows import each_row
from tests.support.server import ROOT

GUIDE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
SECTIONS = dict(
    # Pair each title with the text after it, because `re.split` returns them alternately.
    zip(*(iter(re.split(r"^## (.+)$", GUIDE, flags=re.MULTILINE)[1:]),) * 2, strict=True)
)
PROVIDERS = ["OpenAI", "Anthropic", "Gemini with an API key", "Gemini on Vertex AI", "Amazon Bedrock"]
OF_TEMPLATE = "# template.yaml, under Parameters of Aion\n"
REGION, ACCOUNT = "eu-west-1", "123456789012"
# Packages of the modules that the examples import. The development environment does not have these packages.
BROUGHT_BY = {
    "langchain_openai": "langchain-openai",
    "langchain_anthropic": "langchain-anthropic",
    "langchain_google_genai": "langchain-google-genai",
    "langchain_aws": "langchain-aws",
}
# Additional packages that modules of ADK import.
NEEDS = {"google.adk.models.lite_llm": '"litellm>=1.84,<1.85"', "google.adk.models.anthropic_llm": "anthropic"}


def blocks(section: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL)


def declared(section: str, folder: Path) -> DeploymentConfig:
    (block,) = (each for each in blocks(section, "yaml") if not each.startswith(OF_TEMPLATE))
    file = folder / "aion.yaml"
    file.write_text(block)
    return read_deployment_config(file)


def test_models_guide_has_section_for_each_provider() -> None:
    assert set(PROVIDERS) <= SECTIONS.keys()
    for section in PROVIDERS:
        links = {re.sub(r"[^\w\- ]", "", section.lower()).replace(" ", "-")}
        assert any(f"(#{link})" in GUIDE.partition("\n## ")[0] for link in links), section


@each_row("section", [title for title, text in SECTIONS.items() if "```yaml\naion:" in text])
def test_yaml_examples_in_models_guide_are_valid(section: str, tmp_path: Path) -> None:
    found = declared(section, tmp_path)
    assert found.environment
    assert found.agents


def test_yaml_example_in_models_guide_reads_local_variables(tmp_path: Path) -> None:
    found = declared("Where to put a key", tmp_path)
    (tmp_path / ".env").write_text("MODEL=of-dotenv\nOPENAI_API_KEY=of-dotenv\nDB_PASSWORD=of-dotenv\n")
    variables, warnings = local_environment(tmp_path / "aion.yaml", {"DB_PASSWORD": "of-shell"}, found)
    assert variables == {"MODEL": "of-dotenv", "OPENAI_API_KEY": "of-dotenv", "TEMPERATURE": "0"}
    assert [warning.partition(" ")[0] for warning in warnings] == ["TAVILY_API_KEY"]


@each_row("section", PROVIDERS)
def test_code_in_models_guide_reads_declared_variables(section: str, tmp_path: Path) -> None:
    found = declared(section, tmp_path)
    for block in blocks(section, "python"):
        read = {
            node.slice.value
            for node in ast.walk(ast.parse(block))
            if isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
            and ast.unparse(node.value) == "os.environ"
        }
        assert read
        assert read <= found.environment.keys() | found.secrets.keys()


def imported(block: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.ImportFrom):
            assert node.module
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


@each_row("section", PROVIDERS)
def test_code_in_models_guide_imports_existing_names(section: str) -> None:
    for block in blocks(section, "python"):
        for module, name in imported(block):
            if package := BROUGHT_BY.get(module) or NEEDS.get(module):
                assert f"`uv add {package}`" in SECTIONS[section]
            if module in BROUGHT_BY:
                continue
            spec = importlib.util.find_spec(module)
            assert spec is not None, module
            if module in NEEDS:
                # Search the module's source text, because the module cannot be imported without its package.
                assert spec.origin
                classes = {
                    each.name
                    for each in ast.parse(Path(spec.origin).read_text()).body
                    if isinstance(each, ast.ClassDef)
                }
                assert name in classes
            elif name:
                assert hasattr(importlib.import_module(module), name), (module, name)


def test_adk_agent_in_models_guide_needs_no_extra_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = "Gemini with an API key"
    (block,) = [each for each in blocks(section, "python") if "google.adk" in each]
    for name, value in declared(section, tmp_path).environment.items():
        monkeypatch.setenv(name, value)
    names: dict[str, object] = {"__name__": "guide"}
    exec(compile(block, "docs/models.md", "exec"), names)  # noqa: S102  # our own page
    assert framework_of(names["root_agent"]) == "adk"
    assert getattr(names["root_agent"], "model", None) == os.environ["MODEL"]


def given(section: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters in the section's template.yaml and in its samconfig.toml."""
    for block in blocks(section, "yaml"):
        yield from yaml.safe_load(block).items() if block.startswith(OF_TEMPLATE) else ()
    for block in blocks(section, "toml"):
        yield from (tuple(word.split("=", 1)) for word in tomllib.loads(block)["parameter_overrides"])


def test_deployment_accepts_parameters_in_models_guide() -> None:
    parameters = Template(ROOT / "template.yaml", BUILD_PLACE).document["Parameters"]
    found = [each for section in SECTIONS for each in given(section)]
    assert {name for name, _ in found} == {
        "AgentSecrets",
        "AgentPolicyArns",
        "BedrockModels",
        "SubnetIds",
        "SecurityGroupIds",
    }
    for name, value in found:
        assert re.fullmatch(parameters[name]["AllowedPattern"], value), (name, value)


@pytest.mark.parametrize("section", ["OpenAI", "Anthropic", "Gemini with an API key"])
def test_template_parameter_in_models_guide_is_arn_of_secret(section: str, tmp_path: Path) -> None:
    found = declared(section, tmp_path)
    (source,) = found.secrets.values()
    asked = template_parameters(found, REGION, ACCOUNT)["AgentSecrets"]
    assert asked == f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{source.name}-??????"
    if section == "OpenAI":
        assert ("AgentSecrets", asked) in list(given(section))
    assert f"aws secretsmanager create-secret --name {source.name} " in SECTIONS[section]


def test_models_guide_shows_secret_from_parameter_store(tmp_path: Path) -> None:
    (named,) = re.findall(r"`(OPENAI_API_KEY): (ssm:[^`]+)`", SECTIONS["OpenAI"])
    file = tmp_path / "aion.yaml"
    file.write_text(json.dumps({"aion": {"secrets": dict([named]), "agents": {"a": {"path": "a.py"}}}}))
    asked = template_parameters(read_deployment_config(file), REGION, ACCOUNT)["AgentSecrets"]
    assert asked == f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter{named[1].removeprefix('ssm:')}"
    assert f"--name {named[1].removeprefix('ssm:')} " in SECTIONS["OpenAI"]


def test_bedrock_table_in_models_guide_has_arn_of_its_model(tmp_path: Path) -> None:
    model = declared("Amazon Bedrock", tmp_path).environment["MODEL"]
    rows = re.findall(r"^\| .*?: `([\w.:-]+)`.*? \| `(arn:[^`]+)` \|$", SECTIONS["Amazon Bedrock"], re.MULTILINE)
    assert len(rows) == 2
    assert list(given("Amazon Bedrock")) == [("BedrockModels", dict(rows)[model])]


def test_links_in_models_guide_have_targets() -> None:
    headings = re.findall(r"^##+ (.+)$", GUIDE, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\(([^)]+)\)", GUIDE):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        elif not target.startswith("https://"):
            assert (ROOT / "docs" / target.partition("#")[0]).is_file(), target
