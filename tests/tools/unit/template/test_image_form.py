"""Image form of the template, and `image: true` in aion.yaml."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from aion_tools.shipped import shipped
from aion_tools.template import image_form, stacks
from aion_tools.template.file import load
from scripts.policies.check import linted, problems, transformed

TEMPLATE = shipped() / "template.yaml"
IMAGES = {"ApiFunction", "TaskFunction"}
ZIPS = {"PushFunction", "SweepFunction"}
AION_YAML = "aion: {image: true, agents: {mine: {path: agent.py}}}"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Return the image form of the shipped template, beside its nested stacks and below its project's folder."""
    file = tmp_path / "stacks" / "template.yaml"
    shutil.copytree(shipped() / "infra", file.parent / "infra")
    file.write_text(image_form.image_form(TEMPLATE.read_text(), tmp_path))
    return file


@pytest.mark.parametrize(
    ("text", "is_wanted"),
    [
        (AION_YAML, True),
        ("aion: {image: false}", False),
        ("aion: {image: 'true'}", False),
        ("image: true", False),
        ("aion: {image: true", False),
    ],
)
def test_image_form_is_wanted_by_aion_yaml(tmp_path: Path, text: str, is_wanted: bool) -> None:
    assert not image_form.is_wanted(tmp_path)
    (tmp_path / "aion.yaml").write_text(text)
    assert image_form.is_wanted(tmp_path) == is_wanted


def test_image_form_passes_policies(written: Path) -> None:
    assert list(problems(written, lint=False)) == []


@pytest.mark.deep
def test_image_form_passes_lint(written: Path) -> None:
    assert list(linted(written)) == []


def test_functions_with_agents_are_images_others_zips(written: Path) -> None:
    functions = {
        name: each["Properties"]
        for name, each in transformed(written)["Resources"].items()
        if each["Type"] == "AWS::Lambda::Function"
    }
    assert {name for name, each in functions.items() if each.get("PackageType") == "Image"} == IMAGES
    assert {name for name, each in functions.items() if each.get("Runtime") == "python3.13"} == ZIPS
    assert not any({"Handler", "Layers", "SnapStart"} & functions[name].keys() for name in IMAGES)
    assert not any(image_form.WRAPPER in functions[name]["Environment"]["Variables"] for name in IMAGES)


def test_image_form_changes_nothing_but_packaging(written: Path) -> None:
    """Each property of a function that isn't about its package, and all other resources, stay."""
    packaging = {"Runtime", "Handler", "CodeUri", "SnapStart", "PackageType", "Environment"}
    before, after = (load(file)["Resources"] for file in (TEMPLATE, written))
    assert before.keys() == after.keys()
    for name in before.keys() - IMAGES - ZIPS:
        assert before[name] == after[name]
    for name in IMAGES | ZIPS:
        ours, theirs = (each[name]["Properties"] for each in (before, after))
        assert {key: ours.get(key) for key in ours.keys() - packaging} == {
            key: theirs.get(key) for key in theirs.keys() - packaging
        }
        variables = [(each.get("Environment") or {}).get("Variables") or {} for each in (ours, theirs)]
        assert variables[0].keys() - variables[1].keys() <= {image_form.WRAPPER}
        assert variables[1].items() <= variables[0].items()


def test_zips_are_built_before_images(written: Path) -> None:
    """The makefile of a zip fails for an outdated image, before docker builds it."""
    order = [name for name in load(written)["Resources"] if name in IMAGES | ZIPS]
    assert set(order[:2]) == ZIPS


def test_image_is_built_from_folder_of_its_function(written: Path, tmp_path: Path) -> None:
    functions = load(written)["Resources"]
    for name in IMAGES:
        context = functions[name]["Metadata"]["DockerContext"]
        # As in a project, the stacks are in a folder beside `image`.
        assert (written.parent / context).resolve() == tmp_path / "image" / name


def test_projects_on_one_machine_have_different_image_tags(tmp_path: Path) -> None:
    """SAM's name of the image is that of the function, for each project."""
    forms = [image_form.image_form(TEMPLATE.read_text(), tmp_path / name) for name in ("a", "b", "a")]
    assert forms[0] == forms[2] != forms[1]
    assert image_form.without_tag(forms[0]) == image_form.without_tag(forms[1])


def test_snap_start_of_images_is_refused_by_name(written: Path) -> None:
    (rule,) = load(written)["Rules"]["Image"]["Assertions"]
    assert rule["Assert"] == {"Fn::Equals": [{"Ref": "SnapStart"}, "None"]}
    assert "SnapStart" in rule["AssertDescription"]
    assert "image: true" in rule["AssertDescription"]
    assert load(written)["Rules"].keys() > load(TEMPLATE)["Rules"].keys()


def test_ejected_templates_own_function_stays_zip(tmp_path: Path) -> None:
    """It has the runtime of Globals, as before."""
    own = "  Report:\n    Type: AWS::Serverless::Function\n    Properties: {Handler: report.handler, MemorySize: 128}\n"
    text = TEMPLATE.read_text().replace("\nResources:\n", f"\nResources:\n{own}")
    file = tmp_path / "template.yaml"
    file.write_text(image_form.image_form(text, tmp_path))
    properties: dict[str, Any] = load(file)["Resources"]["Report"]["Properties"]
    assert properties == {"Runtime": "python3.13", "CodeUri": ".", "Handler": "report.handler", "MemorySize": 128}


# --- Stacks of a project ---


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the folder of a project with written stacks, for zips."""
    (tmp_path / "template.yaml").write_text("Resources: {Aion: {Location: .aion/stacks/template.yaml}}")
    stacks.write(tmp_path)
    return tmp_path


def test_stacks_of_other_form_are_refused_by_reason(project: Path) -> None:
    (project / "aion.yaml").write_text(AION_YAML)
    told = (
        "aion.yaml has `image: true`, but the stacks in .aion/stacks are for zips. Run `aion build`, then `sam build`"
    )
    with pytest.raises(stacks.StacksError, match=told):
        stacks.check(project)
    stacks.write(project)
    stacks.check(project)
    (project / "aion.yaml").write_text("aion: {agents: {mine: {path: agent.py}}}")
    told = "aion.yaml does not have `image: true`, but the stacks in .aion/stacks are for images. Run `aion stacks`"
    with pytest.raises(stacks.StacksError, match=told):
        stacks.check(project)


def test_stacks_of_images_fit_copy_of_folder(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without `build_in_source`, SAM builds in a copy of the project."""
    (project / "aion.yaml").write_text(AION_YAML)
    stacks.write(project)
    copy = shutil.copytree(project, tmp_path_factory.mktemp("copies") / "copy")
    stacks.check(copy)


def test_ejected_template_gets_image_form_too(project: Path) -> None:
    (project / "aion.yaml").write_text(AION_YAML)
    file = stacks.eject(project, "template")
    file.write_text(file.read_text().replace("MemorySize: 512", "MemorySize: 640"))
    stacks.write(project)
    written = load(project / ".aion" / "stacks" / "template.yaml")["Resources"]
    assert written["PushFunction"]["Properties"]["MemorySize"] == 640
    assert written["ApiFunction"]["Properties"]["PackageType"] == "Image"
    assert "PackageType" not in file.read_text()


@pytest.mark.parametrize("place", ["    Runtime: python3.13\n", "      Handler: handlers.run_task.handler\n"])
def test_image_with_layers_is_refused(project: Path, place: str) -> None:
    (project / "aion.yaml").write_text(AION_YAML)
    file = stacks.eject(project, "template")
    indent = place[: -len(place.lstrip())]
    file.write_text(
        file.read_text().replace(place, f"{place}{indent}Layers: [arn:aws:lambda:us-east-1:1:layer:mine:1]\n")
    )
    with pytest.raises(stacks.StacksError, match=r"stacks/template\.yaml: \w+ is an image and cannot have Layers"):
        stacks.write(project)


@pytest.mark.parametrize("text", ["Resources: [", "Resources: []"])
def test_ejected_template_without_image_form_is_refused(project: Path, text: str) -> None:
    (project / "aion.yaml").write_text(AION_YAML)
    stacks.eject(project, "template").write_text(text)
    with pytest.raises(stacks.StacksError, match=r"stacks/template\.yaml is not a template"):
        stacks.write(project)
