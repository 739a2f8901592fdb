"""docs/aion-yaml.md names every key of aion.yaml, and its examples are valid."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from aion_core.loading.config import AgentConfig, Capabilities, LimitsConfig, PushOptions
from aion_core.loading.config_sections import ExtendedCardConfig, Extension, Provider, SecurityConfig, Skill
from aion_core.loading.deployment import read_agent_configs

GUIDE = (Path(__file__).parents[4] / "docs" / "aion-yaml.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("model", "before"),
    [
        (AgentConfig, ""),
        (Capabilities, ""),
        (Skill, ""),
        (Extension, ""),
        (SecurityConfig, ""),
        (LimitsConfig, ""),
        (Provider, "provider."),
        (ExtendedCardConfig, "extended_card."),
        (PushOptions, "push."),
    ],
)
def test_every_aion_yaml_key_is_in_guide(model: type[BaseModel], before: str) -> None:
    named = set(re.findall(r"`([a-z_.]+)`", GUIDE))
    missing = {f"{before}{field}" for field in model.model_fields} - named
    assert not missing, "Add a row for each of these keys to docs/aion-yaml.md."


def test_example_in_config_guide_is_valid_aion_yaml(tmp_path: Path) -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", GUIDE, flags=re.S)
    file = tmp_path / "aion.yaml"
    file.write_text(example)
    assert list(read_agent_configs(file)) == ["helper", "archive"]


def test_guides_linked_from_config_guide_exist() -> None:
    for guide in re.findall(r"\]\(([a-z-]+\.md)\)", GUIDE):
        assert (Path(__file__).parents[4] / "docs" / guide).is_file()
