"""The guides of aion.yaml are complete: each key is explained to authors, and those who change the code find its effect."""

import re
from pathlib import Path

from pydantic import BaseModel

from aion_core.loading.aion_yaml.agent import AgentConfig, PushOptions
from aion_core.loading.aion_yaml.card import Capabilities, ExtendedCardConfig, Extension, Provider, Skill
from aion_core.loading.aion_yaml.file import LimitsConfig
from aion_core.loading.aion_yaml.security import SecurityConfig
from aion_core.loading.deployment import read_deployment_config
from tests.support.rows import each_row

ROOT = Path(__file__).parents[5]
GUIDE = (ROOT / "docs" / "aion-yaml.md").read_text(encoding="utf-8")


@each_row(
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
    assert list(read_deployment_config(file).agents) == ["helper", "archive"]
