"""Guide to security: its aion.yaml and its node."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from aion_core.loading.auth_policies import read_auth_policies
from aion_core.loading.deployment import read_deployment_config
from tests.support.pages import blocks

GUIDE = (Path(__file__).parents[3] / "docs" / "security.md").read_text(encoding="utf-8")


def test_aion_yaml_in_security_guide_gives_described_policies(tmp_path: Path) -> None:
    file = tmp_path / "aion.yaml"
    file.write_text(re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)[0])
    found = read_auth_policies(read_deployment_config(file).agents)
    assert found["helper"].require == ({"login": frozenset({"agents.chat"})}, {"key": frozenset()})
    assert found["backoffice"].require == ({"login": frozenset({"agents.admin"}), "key": frozenset()},)


@pytest.mark.parametrize(("skills", "refused"), [(["refund"], False), (["other"], True), ([], True)])
def test_langgraph_node_in_security_guide_refuses_unpermitted_skill(skills: list[str], refused: bool) -> None:
    [block] = blocks("docs/security.md", "python")
    names: dict[str, Any] = {"AIMessage": AIMessage}
    exec(compile(block.code, "docs/security.md", "exec"), names)  # noqa: S102  # our own page
    inbox = SimpleNamespace(metadata={"aion:allowedSkills": skills})
    answer = names["refund"]({"a2a_inbox": inbox})
    assert bool(answer) is refused
