"""Callback form of the template, and `callback: on` in aion.yaml."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from aion_tools.shipped import shipped
from aion_tools.template import callback_form, image_form, stacks
from aion_tools.template.file import TemplateError, load, parsed
from scripts.policies.check import linted, problems, transformed

TEMPLATE = shipped() / "template.yaml"
AION_YAML = "aion: {remotes: {far: {url: https://far.example, callback: on}}, agents: {mine: {path: agent.py}}}"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    file = tmp_path / "stacks" / "template.yaml"
    shutil.copytree(shipped() / "infra", file.parent / "infra")
    file.write_text(callback_form.callback_form(TEMPLATE.read_text(), ["far"]))
    return file


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (AION_YAML, ["far"]),
        ("aion: {remotes: {a: {callback: 'on'}, b: {callback: off}, c: {}}}", ["a"]),
        ("aion: {remotes: {a: {callback: 'true'}}}", []),
        ("aion: {remotes: [a]}", []),
        ("aion: {remotes: {a: on}}", []),
        ("aion: {remotes: {", []),
        ("- aion", []),
    ],
)
def test_callbacks_are_wanted_by_aion_yaml(tmp_path: Path, text: str, names: list[str]) -> None:
    assert callback_form.remotes(tmp_path) == []
    (tmp_path / "aion.yaml").write_text(text)
    assert callback_form.remotes(tmp_path) == names


def methods(template: Path, authorizer: str) -> dict[tuple[str, str], Any]:
    """Return the API's methods after SAM's transform, with the security of each."""
    [api] = [
        each
        for each in transformed(template, {"ApiAuthorizer": authorizer})["Resources"].values()
        if each["Type"] == "AWS::ApiGateway::RestApi"
    ]
    return {
        (path, name): method
        for path, named in api["Properties"]["Body"]["paths"].items()
        for name, method in named.items()
    }


@pytest.mark.parametrize("authorizer", ["AWS_IAM", "NONE"])
def test_only_callback_path_has_no_authorizer(written: Path, authorizer: str) -> None:
    before, after = methods(TEMPLATE, authorizer), methods(written, authorizer)
    added = after.pop(("/callbacks", "post"))
    assert before == after
    assert added.get("security", [{"NONE": []}]) == [{"NONE": []}]
    everything = after["/{proxy+}", "x-amazon-apigateway-any-method"]
    assert everything["x-amazon-apigateway-integration"] == added["x-amazon-apigateway-integration"]
    if authorizer == "AWS_IAM":
        assert everything["security"] == [{"AWS_IAM": []}]


def test_callback_path_is_absent_until_asked_for(tmp_path: Path) -> None:
    (tmp_path / "aion.yaml").write_text("aion: {agents: {mine: {path: agent.py}}}")
    assert "/callbacks" not in stacks.contents(tmp_path)["template.yaml"]
    (tmp_path / "aion.yaml").write_text(AION_YAML)
    assert "/callbacks" in stacks.contents(tmp_path)["template.yaml"]


def test_callback_form_passes_policies(written: Path) -> None:
    assert list(problems(written, lint=False)) == []


@pytest.mark.deep
def test_callback_form_passes_lint(written: Path) -> None:
    assert list(linted(written)) == []


def test_callback_form_changes_nothing_else(written: Path) -> None:
    before, after = parsed(TEMPLATE.read_text()), load(written)
    events = after["Resources"]["ApiFunction"]["Properties"]["Events"]
    assert {name: event for name, event in events.items() if name != "Callbacks"} == before["Resources"]["ApiFunction"][
        "Properties"
    ]["Events"]
    assert "Callbacks" in events


def test_callbacks_and_images_go_together(tmp_path: Path) -> None:
    (tmp_path / "aion.yaml").write_text(AION_YAML.replace("aion: {", "aion: {image: true, "))
    template = stacks.contents(tmp_path)["template.yaml"]
    assert image_form.is_written(template)
    assert "/callbacks" in template


WITHOUT_API = """
Resources:
  ApiFunction:
    Type: AWS::Serverless::Function
    Properties: {}
"""


def test_template_without_rest_api_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "aion.yaml").write_text(AION_YAML)
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "template.yaml").write_text(WITHOUT_API)
    with pytest.raises(stacks.StacksError, match=r"aion\.remotes\.far has `callback: on`.*Function URL with AWS_IAM"):
        stacks.contents(tmp_path)
    with pytest.raises(TemplateError, match=r"aion\.remotes\.far"):
        callback_form.check(parsed(WITHOUT_API), ["far"])


def test_own_template_with_callback_path_is_accepted(written: Path) -> None:
    callback_form.check(load(written), ["far"])
    again = callback_form.callback_form(written.read_text(), ["far"])
    assert parsed(again) == load(written), "a path of the project's own stays"
