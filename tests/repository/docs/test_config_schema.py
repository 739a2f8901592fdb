"""JSON Schema of aion.yaml: generated from the models, it accepts what the server reads and refuses mistakes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from aion_core.errors import ConfigurationError
from aion_core.loading.deployment import read_deployment_config
from aion_tools.project.files import OBJECTS, SCHEMA, Project, rendered
from aion_tools.project.origin import Origin
from scripts.config_schema import PATH, build_schema
from scripts.config_schema import rendered as rendered_schema
from tests.support.rows import each_row
from tests.support.server import ROOT

VALIDATOR = Draft7Validator(json.loads(PATH.read_text(encoding="utf-8")))
FILES = [
    file
    for folder in ("examples", "tests/support/agents", "tests/runtime/golden")
    for file in sorted((ROOT / folder).rglob("*.yaml"))
    if re.search(r"^aion:", file.read_text(encoding="utf-8"), re.MULTILINE)
]
BLOCKS = {
    f"{page.name}:{number}": block
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    for number, block in enumerate(re.findall(r"^```yaml.*\n(aion:\n.*?)^```", page.read_text("utf-8"), re.M | re.S))
}


def errors(text: str) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(yaml.safe_load(text))]


def test_aion_yaml_schema_is_generated_from_models() -> None:
    assert PATH.read_text(encoding="utf-8") == rendered_schema(), "run `make schema`"
    Draft7Validator.check_schema(build_schema())


def test_aion_yaml_schema_describes_each_key() -> None:
    schema = build_schema()
    for name, part in [("", schema), *schema["$defs"].items()]:
        for key, described in part.get("properties", {}).items():
            text = described.get("description", "")
            assert text.endswith("."), f"{name}.{key}: {text}"
            assert not re.search(r"subclass|Literal|model|Pydantic", text), f"{name}.{key}: {text}"


@each_row("file", [ROOT / "aion.yaml", *FILES])
def test_aion_yaml_schema_accepts_examples(file: Path) -> None:
    assert errors(file.read_text(encoding="utf-8")) == []


@each_row("block", BLOCKS.values())
def test_aion_yaml_schema_accepts_documented_configurations(block: str) -> None:
    # Ignore missing keys, because a page may leave out the agents or an agent's path.
    found = [error for error in errors(block) if "is a required property" not in error]
    assert found == []


@pytest.mark.parametrize("framework", OBJECTS)
def test_aion_yaml_of_new_project_refers_to_its_schema(framework: str) -> None:
    files = rendered(Project("my-agent", framework, Origin()))
    assert files["aion.yaml"].startswith(f"# yaml-language-server: $schema={SCHEMA}\n")
    assert errors(files["aion.yaml"]) == []


AGENT: dict[str, Any] = {"path": "agent.py:graph"}
MISTAKES: dict[str, Any] = {
    "no aion": {"agents": {"a": AGENT}},
    "no agents": {"aion": {"agents": {}}},
    "no path": {"aion": {"agents": {"a": {"name": "A"}}}},
    "misspelled key": {"aion": {"agents": {"a": {**AGENT, "descripton": "d"}}}},
    "key of another level": {"aion": {"agents": {"a": {**AGENT, "streaming": False}}}},
    "unknown choice": {"aion": {"agents": {"a": {**AGENT, "reply": "tasks"}}}},
    "agent's id with a space": {"aion": {"agents": {"my agent": AGENT}}},
    "text in place of a list": {"aion": {"agents": {"a": {**AGENT, "input_modes": "text/plain"}}}},
    "no media type": {"aion": {"agents": {"a": {**AGENT, "input_modes": ["text"]}}}},
    "number in place of text": {"aion": {"agents": {"a": AGENT}, "environment": {"PORT": 1}}},
    "number above the limit": {"aion": {"agents": {"a": AGENT}, "limits": {"streams_per_owner": 1000}}},
    "secret that is no text": {"aion": {"agents": {"a": AGENT}, "secrets": {"KEY": ["a"]}}},
    "unknown scheme": {"aion": {"agents": {"a": AGENT}, "security": {"schemes": {"k": {"type": "apikey"}}}}},
    "scheme without type": {"aion": {"agents": {"a": AGENT}, "security": {"schemes": {"k": {"header": "X-Key"}}}}},
    "skill without name": {"aion": {"agents": {"a": {**AGENT, "skills": [{"id": "s", "description": "d"}]}}}},
}


@each_row("mistake", MISTAKES.values())
def test_aion_yaml_schema_and_server_refuse_same_mistakes(mistake: Any, tmp_path: Path) -> None:
    text = yaml.safe_dump(mistake)
    assert errors(text) != []
    (tmp_path / "aion.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError):
        read_deployment_config(tmp_path / "aion.yaml")


@each_row(
    "security",
    [
        {"schemes": {"k": {"type": "api-key"}}, "require": ["k"]},
        {"schemes": {"k": {"type": "api-key"}}, "require": [{"k": []}]},
        {"schemes": {"t": {"type": "oidc", "issuer": "https://login.example.com", "audience": "a"}}},
        {"schemes": {"t": {"type": "oidc", "issuer": "https://login.example.com", "audience": ["a", "b"]}}},
    ],
)
def test_aion_yaml_schema_accepts_short_and_long_forms(security: Any, tmp_path: Path) -> None:
    text = yaml.safe_dump({"aion": {"agents": {"a": AGENT}, "security": security, "cors": {"origins": "*"}}})
    (tmp_path / "aion.yaml").write_text(text, encoding="utf-8")
    assert read_deployment_config(tmp_path / "aion.yaml").agents
    assert errors(text) == []
