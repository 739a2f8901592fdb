"""The guide on who may call: its aion.yaml asks as it says, and its commands are there."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from aion_core.agents.config import read_agent_configs
from aion_core.agents.security import declared_securities
from aion_core.cli.main import aion

GUIDE = (Path(__file__).parents[3] / "docs" / "security.md").read_text(encoding="utf-8")


def test_the_guides_agents_ask_for_what_the_guide_says(tmp_path: Path) -> None:
    """R8, R96."""
    file = tmp_path / "aion.yaml"
    file.write_text(re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)[0])
    found = declared_securities(read_agent_configs(file))
    assert found["helper"].require == ({"login": frozenset({"agents.chat"})}, {"key": frozenset()})
    assert found["backoffice"].require == ({"login": frozenset({"agents.admin"}), "key": frozenset()},)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"aion ((?:key|user) [a-z]+)", GUIDE))))
def test_the_guides_commands_have_the_options_that_it_gives(command: str) -> None:
    shown = CliRunner().invoke(aion, [*command.split(), "--help"])
    assert shown.exit_code == 0
    for line in re.findall(rf"^aion {command} (.*?)(?:  +#.*)?$", GUIDE, re.MULTILINE):
        assert all(option in shown.output for option in re.findall(r"--[a-z]+", line)), line
