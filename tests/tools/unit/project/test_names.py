"""Names of projects: valid for a folder, a Python distribution and a CloudFormation stack."""

import re

import pytest

from aion_tools.project import InvalidName, names
from tests.support.rows import each_row

STACK = re.compile(r"[a-zA-Z][-a-zA-Z0-9]{0,127}")
"""CloudFormation's rule: https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_CreateStack.html"""


@each_row("name", ["my-agent", "a", "Agent2", "my_agent", "a" * 60])
def test_valid_project_name_makes_valid_stack_names(name: str) -> None:
    names.check(name)
    for stage in names.STAGES:
        assert STACK.fullmatch(names.stack_name(name, stage))


@each_row("name", ["", "2nd", "-a", "a-", "my agent", "mein.agent", "ägent", "a/b", "..", "a\n", "a" * 61])
def test_invalid_project_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidName, match="project"):
        names.check(name)


@each_row("name", ["langgraph", "LangGraph", "a2a_sdk", "aion-lambda", "google-adk", "moto", "pytest"])
def test_project_name_equal_to_installed_package_is_refused(name: str) -> None:
    with pytest.raises(InvalidName, match="name of an installed Python package"):
        names.check(name)


@each_row(
    ("folder", "name"),
    [
        ("my-agent", "my-agent"),
        ("My Agent (2)", "My-Agent-2"),
        ("2024.agents", "agents"),
        ("日本", "agent"),
        ("a" * 99, "a" * 60),
    ],
)
def test_project_name_suggested_for_folder_is_valid(folder: str, name: str) -> None:
    assert names.suggested(folder) == name
    names.check(name)
