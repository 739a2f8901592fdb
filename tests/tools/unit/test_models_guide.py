"""docs/models.md: its variables, and its parameters of the template. tests/tools/e2e/test_models_guide.py runs its code."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

from aion_core.loading.aion_yaml.reading import DeploymentConfig
from aion_core.loading.deployment import read_deployment_config
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
OF_TEMPLATE = "# template.yaml, under Parameters of Aion\n"
REGION, ACCOUNT = "eu-west-1", "123456789012"


def blocks(section: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL)


def declared(section: str, folder: Path) -> DeploymentConfig:
    (block,) = (each for each in blocks(section, "yaml") if not each.startswith(OF_TEMPLATE))
    file = folder / "aion.yaml"
    file.write_text(block)
    return read_deployment_config(file)


def test_yaml_example_in_models_guide_reads_local_variables(tmp_path: Path) -> None:
    found = declared("Where to put a key", tmp_path)
    (tmp_path / ".env").write_text("MODEL=of-dotenv\nOPENAI_API_KEY=of-dotenv\nDB_PASSWORD=of-dotenv\n")
    variables, warnings = local_environment(tmp_path / "aion.yaml", {"DB_PASSWORD": "of-shell"}, found)
    assert variables == {"MODEL": "of-dotenv", "OPENAI_API_KEY": "of-dotenv", "TEMPERATURE": "0"}
    assert [warning.partition(" ")[0] for warning in warnings] == ["TAVILY_API_KEY"]


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


@each_row("section", ["OpenAI", "Anthropic", "Gemini with an API key"])
def test_template_parameter_in_models_guide_is_arn_of_secret(section: str, tmp_path: Path) -> None:
    found = declared(section, tmp_path)
    (source,) = found.secrets.values()
    asked = template_parameters(found, REGION, ACCOUNT)["AgentSecrets"]
    assert asked == f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{source.name}-??????"
    if section == "OpenAI":
        assert ("AgentSecrets", asked) in list(given(section))
    assert f"aws secretsmanager create-secret --name {source.name} " in SECTIONS[section]
