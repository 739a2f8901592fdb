"""Folders of container images, written from a project with an executor."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from aion_tools import project
from aion_tools.image import folders
from aion_tools.package import build, own_code
from aion_tools.package.build import Build
from aion_tools.package.functions import AGENT_FUNCTIONS
from aion_tools.programs import BuildError, find_uv, machine_architecture, run
from tests.support.server import ROOT
from tests.tools.unit.package.wheels import (
    EXECUTOR,
    ONLY,
    index,
    pyproject,
    requirements_of_aion,
    small_own_code,
    write,
)

ENTRYPOINT = '["/var/task/aion_core/lambda_runtime/exec-wrapper.sh", "/lambda-entrypoint.sh"]'


def template() -> str:
    """Return the template.yaml of a new project for this machine's processor."""
    text = (Path(project.__file__).with_name("files") / "every" / "template.yaml").read_text()
    return text.replace("@architecture@", machine_architecture()).replace("@name@", "Mine")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a project with its uv.lock. Its dependencies are small wheels with the names of aion-lambda's."""
    source = f'[tool.uv.sources]\naion-lambda = {{ path = "{ROOT}" }}\n'
    files = {
        "aion.yaml": "aion: {image: true, agents: {mine: {path: agent.py}}}",
        "agent.py": EXECUTOR,
        "lib/words.py": "",
        "template.yaml": template(),
        ".env": "OPENAI_API_KEY=sk-1",
    }
    folder = write(tmp_path_factory.mktemp("project"), files)
    with index(requirements_of_aion(tmp_path_factory.mktemp("index"))) as url, pytest.MonkeyPatch.context() as patched:
        patched.setenv("AION_PACKAGE_CACHE", str(tmp_path_factory.mktemp("packages")))
        patched.setattr(own_code, "own_files", small_own_code)
        write(folder, {"pyproject.toml": pyproject("aion-lambda[api]") + source + ONLY.format(url)})
        run([find_uv(), "lock", "--quiet", "--project", str(folder)])
        yield folder


@pytest.fixture
def folder(locked: Path, tmp_path: Path) -> Path:
    """Return a copy of the project, without images."""
    return shutil.copytree(locked, tmp_path / "copy")


@pytest.fixture(scope="module")
def images(locked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the images of a copy of the project. They replace those of an earlier build."""
    folder = shutil.copytree(locked, tmp_path_factory.mktemp("built") / "copy")
    write(folder, {".aion/image/TaskFunction/code/lib/old.py": "", ".aion/image/TaskFunction/Dockerfile": ""})
    project = Build(folder)
    before = os.umask(0o077)
    try:
        made = {function: folders.write(project, function).code for function in AGENT_FUNCTIONS}
    finally:
        os.umask(before)
    assert made == {function: folder / ".aion" / "image" / function / "code" for function in AGENT_FUNCTIONS}
    return folder / ".aion" / "image"


@pytest.mark.parametrize(
    ("function", "ends"),
    [
        ("ApiFunction", [f"ENTRYPOINT {ENTRYPOINT}", 'CMD ["handlers.api.handler"]']),
        ("TaskFunction", ['CMD ["handlers.run_task.handler"]']),
    ],
)
def test_image_copies_package_and_installs_nothing(images: Path, function: str, ends: list[str]) -> None:
    image = images / function
    lines = (image / "Dockerfile").read_text().splitlines()
    assert lines[1:] == ["FROM public.ecr.aws/lambda/python:3.13", "COPY code /var/task/", *ends]
    assert {each.name for each in image.iterdir()} == {"Dockerfile", "code"}
    assert {"agent.py", "aion.yaml", "aion_core", "a2a"} <= {each.name for each in (image / "code").iterdir()}
    assert not list((image / "code").rglob(".env"))
    assert [file.name for file in (image / "code" / "lib").glob("*.py")] == ["words.py"], "none of an earlier build"
    places = [image / "code", *(image / "code").rglob("*")]
    assert {place.stat().st_mode & 0o755 for place in places if place.is_dir()} == {0o755}, "Lambda's user reads them"
    assert {place.stat().st_mode & 0o044 for place in places if place.is_file()} == {0o044}


def test_only_functions_with_agents_are_images(folder: Path) -> None:
    made = Build(folder)
    assert tuple(filter(made.is_image, made.functions)) == AGENT_FUNCTIONS
    (folder / "aion.yaml").write_text("aion: {agents: {mine: {path: agent.py}}}")
    assert not any(map(Build(folder).is_image, made.functions))


def test_outdated_or_unfinished_image_is_refused_with_remedy(images: Path, folder: Path) -> None:
    shutil.copytree(images, folder / ".aion" / "image", copy_function=os.link)
    (folder / ".aion" / "image" / "TaskFunction" / "code" / "old.py").touch()
    with pytest.raises(
        BuildError, match=r"\.aion/image/TaskFunction is outdated: old\.py differs. Run `aion build`, then"
    ):
        folders.check(folder)
    (folder / ".aion" / "image" / "ApiFunction" / "Dockerfile").unlink()
    with pytest.raises(BuildError, match=r"ApiFunction has no Dockerfile\. Run `aion build`"):
        folders.check(folder)


@pytest.mark.deep
def test_image_may_exceed_limit_of_zip(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "words.txt").write_text("x" * 1024**2)
    monkeypatch.setattr(build, "LAMBDA_LIMIT", 1024**2)
    made = folders.write(Build(folder), "TaskFunction")
    assert made.size > 1024**2
    assert made.warnings == ()
    monkeypatch.setattr(build, "IMAGE_LIMIT", 1024**2 + 1)
    with pytest.raises(BuildError, match=r"Lambda's limit for an image is 1 MB\.\nThe largest distributions: "):
        folders.write(Build(folder), "TaskFunction")
    (folder / "aion.yaml").write_text("aion: {agents: {mine: {path: agent.py}}}")
    with pytest.raises(BuildError, match=r"for a zip is 1 MB\.\n.*\n.*`exclude:`.*`image: true`"):
        Build(folder).write("TaskFunction", folder / "package")


def test_image_needs_template_with_stacks(folder: Path) -> None:
    """The functions of another template, such as a clone's, are zips."""
    for file in ("template.yaml", *(f"infra/{each.name}" for each in (ROOT / "infra").glob("*.yaml"))):
        (folder / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, folder / file)
    with pytest.raises(BuildError, match=r"`image: true` in aion.yaml needs a template.yaml that nests .aion/stacks"):
        Build(folder)
    (folder / "template.yaml").unlink()
    assert Build(folder).is_image("ApiFunction")
