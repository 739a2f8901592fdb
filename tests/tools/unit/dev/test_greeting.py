"""Start message of `aion dev`."""

import json
import shlex
from pathlib import Path

import pytest

from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.deployment import read_deployment_config
from aion_core.protocol.types import AgentCard, AgentSkill
from aion_tools.dev.greeting import HELLO, example_part, example_request, greeting
from tests.support.rows import each_row


def test_dev_greeting_names_agents_of_factories_and_without_description(tmp_path: Path) -> None:
    file = tmp_path / "aion.yaml"
    file.write_text("aion: {agents: {one: {path: a.py}, two: {path: b.py}}}", encoding="utf-8")
    agents = read_deployment_config(file).agents
    lines = greeting(agents, "http://x", "memory", per_turn=("two",), undescribed=("two",)).splitlines()
    note = "is created by its factory in each turn; the factory has not been called yet"
    assert [line for line in lines if note in line] == [f"two {note}"]
    assert [line for line in lines if "description" in line] == [
        "two has no description in its card: other agents choose by it. Set `description` in aion.yaml, or write a docstring."
    ]


@pytest.mark.parametrize(("mark", "at_root"), [("", "one"), ("default: true", "two")])
def test_dev_greeting_names_default_agent(tmp_path: Path, mark: str, at_root: str) -> None:
    file = tmp_path / "aion.yaml"
    file.write_text(f"aion: {{agents: {{one: {{path: a.py}}, two: {{path: b.py, {mark}}}}}}}", encoding="utf-8")
    lines = greeting(read_deployment_config(file).agents, "http://x", "memory").splitlines()
    assert [line for line in lines if " is available at http://x/ " in line] == [
        f"{at_root} is available at http://x/ and http://x/agents/{at_root}/"
    ]
    assert sum("/agents/" in line for line in lines) == 2


def test_dev_greeting_prints_key_while_no_agent_is_loaded(tmp_path: Path) -> None:
    """Print the key although no example request is printed, because only the first start message contains the key."""
    file = tmp_path / "aion.yaml"
    file.write_text("aion: {agents: {one: {path: a.py}}}", encoding="utf-8")
    assert "X-API-Key: aion_k" in greeting(
        read_deployment_config(file).agents, "http://x", "memory", "X-API-Key: aion_k", failed={"one": "no package"}
    )


def test_dev_greeting_names_required_extensions_in_request(tmp_path: Path) -> None:
    file = tmp_path / "aion.yaml"
    extensions = "[{uri: 'https://x.test/a', required: true}, {uri: 'https://x.test/b'}]"
    file.write_text(f"aion: {{agents: {{one: {{path: a.py, capabilities: {{extensions: {extensions}}}}}}}}}")
    lines = greeting(read_deployment_config(file).agents, "http://x", "memory").splitlines()
    assert "    -H 'A2A-Extensions: https://x.test/a' \\" in lines


@each_row(
    ("modes", "examples", "part"),
    [
        (["text/plain"], ['{"a": 1}'], {"text": HELLO}),
        (["text/*", "application/json"], ['{"a": 1}'], {"text": HELLO}),
        ([], ['{"a": 1}'], {"text": HELLO}),
        (["application/json"], ['{"a": 1}', '{"b": 2}'], {"data": {"a": 1}}),
        (["application/json"], ["Order a cat.", '["a"]'], {"data": ["a"]}),
        (["application/json"], [], {"text": HELLO}),
        (["image/png"], ["A picture."], {"text": HELLO}),
    ],
)
def test_dev_greeting_sends_what_agent_reads(modes: list[str], examples: list[str], part: object) -> None:
    skill = AgentSkill(id="s", name="S", description="S.", tags=["s"], examples=examples)
    assert example_part(AgentCard(default_input_modes=modes, skills=[skill])) == part


def test_apostrophe_of_example_does_not_end_string_of_shell() -> None:
    lines = example_request(AgentConfig(path="a.py"), "http://x", part={"data": {"item": "cat's bell"}})
    words = shlex.split("\n".join(lines).replace("\\\n", " "))
    assert json.loads(words[-1])["params"]["message"]["parts"] == [{"data": {"item": "cat's bell"}}]
