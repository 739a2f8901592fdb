"""Broken aion.yaml and langgraph.json: each error names the file and the remedy."""

from pathlib import Path

import pytest

from aion_core.errors import ConfigurationError
from aion_core.loading.deployment import read_deployment_config
from tests.runtime.unit.loading.load_errors.test_explain import isolated, written  # noqa: F401  # a fixture
from tests.support.rows import each_row

FILES: dict[str, tuple[str, str, list[str]]] = {
    "agents at the top": (
        "aion.yaml",
        "agents:\n  a: {path: a.py}\n",
        ["agents is not a key that aion knows here. It belongs below `aion:`."],
    ),
    "an agent's key below aion": (
        "aion.yaml",
        "aion:\n  skills: []\n  agents: {a: {path: a.py}}\n",
        ["aion.skills is not a key that aion knows here. It belongs below `aion.agents.<id>:`"],
    ),
    "aion's key below an agent": (
        "aion.yaml",
        "aion:\n  agents: {a: {path: a.py, limits: {}}}\n",
        ["aion.agents.a.limits is not a key that aion knows here. It belongs below `aion:`."],
    ),
    "absolute python_path": (
        "aion.yaml",
        "aion:\n  python_path: [/tmp]\n  agents: {a: {path: a.py}}\n",
        ["aion.python_path.0: the path '/tmp' is absolute; write it relative to aion.yaml's folder."],
    ),
    "python_path that is not there": (
        "aion.yaml",
        "aion:\n  python_path: [libs]\n  agents: {a: {path: a.py}}\n",
        ["aion.python_path names {}/libs, which is not a folder. Fix the name, or create the folder."],
    ),
    "no JSON": (
        "langgraph.json",
        '{"graphs": {"agent": "./a.py:graph",}}',
        ["is not valid JSON: ", "(line 1, column ", "no comma after the last entry."],
    ),
    "no graphs": (
        "langgraph.json",
        '{"dependencies": ["."]}',
        ["graphs: it has to name at least one graph, as in"],
    ),
    "a JavaScript graph": (
        "langgraph.json",
        '{"graphs": {"agent": "./src/graph.ts:graph"}}',
        ["graphs.agent: ./src/graph.ts is JavaScript, and aion serves Python."],
    ),
    "a path outside the folder": (
        "langgraph.json",
        '{"graphs": {"agent": "../other/graph.py:graph"}}',
        [
            "graphs.agent: ../other/graph.py is outside of {}, which is what is deployed. Move the file below that folder."
        ],
    ),
    "a dependency that is not there": (
        "langgraph.json",
        '{"graphs": {"agent": "./a.py:graph"}, "dependencies": ["./my_pkg"]}',
        ["dependencies: './my_pkg' is not a folder. Fix the path, or create the folder."],
    ),
}


@each_row("case", FILES)
def test_error_names_broken_agent_file_and_its_remedy(case: str, tmp_path: Path) -> None:
    name, content, sentences = FILES[case]
    written(tmp_path, {name: content})
    with pytest.raises(ConfigurationError) as failed:
        read_deployment_config(tmp_path / name)
    assert str(failed.value).startswith(str(tmp_path / name))
    assert len(str(failed.value).splitlines()) == 1
    for sentence in sentences:
        assert sentence.replace("{}", str(tmp_path)) in str(failed.value)
