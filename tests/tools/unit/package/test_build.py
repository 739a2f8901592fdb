"""Build of packages, for projects outside of aion-lambda's repository.

The tests of the project alone stop before the dependencies are resolved. The others share an index of small wheels, one
project and one cache; `make package-check` builds packages of the real dependencies.
"""

import io
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path

import pytest

from aion_core.loading.deployment import read_deployment_config
from aion_tools.package import build as building
from aion_tools.package import own_code
from aion_tools.package.build import Build
from aion_tools.package.functions import PLATFORMS, Target
from aion_tools.package.lock import Lock
from aion_tools.package.package import Package, files_in
from aion_tools.programs import BuildError, find_uv, interpreter, machine_architecture, run
from aion_tools.project.files import Project, rendered
from aion_tools.project.origin import Origin
from aion_tools.template.names import BUILD_PLACE
from aion_tools.template.reader import Template
from tests.support.server import ROOT
from tests.tools.unit.package.wheels import (
    EXECUTOR,
    ONLY,
    index,
    pyproject,
    requirements_of_aion,
    small_own_code,
    wheel,
    write,
)

AGENT = "from langgraph.graph import StateGraph\ngraph = StateGraph(dict)\n"
FILES = {
    "aion.yaml": "aion: {agents: {mine: {path: agent.py}}}",
    "agent.py": AGENT + "from private.words import hello\n",
    "private/words.py": "hello = 'hello'\n",
    "prompts/hello.txt": "Hello",
    ".env": "OPENAI_API_KEY=sk-1",
    ".git/config": "",
}


def project(folder: Path, more: Mapping[str, str] | None = None) -> Path:
    return write(folder, {**FILES, **(more or {})})


# --- Reading of the project ---


@pytest.fixture
def unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a project without its dependencies, which need a package index."""
    monkeypatch.setattr(building, "locked", lambda *_: Lock((), ()))


def read(folder: Path) -> Build:
    return Build(folder)


def places(built: Build) -> dict[str, Path | bytes]:
    return dict(built._project_files())


@pytest.mark.usefixtures("unlocked")
def test_project_files_and_agents_are_read(tmp_path: Path) -> None:
    made = read(project(tmp_path))
    assert set(places(made)) == {"aion.yaml", "agent.py", "private/words.py", "prompts/hello.txt"}
    assert [(agent.id, agent.path) for agent in made.agents.agents] == [("mine", "agent.py")]


@pytest.mark.usefixtures("unlocked")
def test_target_comes_from_template(tmp_path: Path) -> None:
    templates = {f"infra/{file.name}": file.read_text() for file in (ROOT / "infra").glob("*.yaml")}
    folder = project(
        tmp_path, {**templates, "template.yaml": (ROOT / "template.yaml").read_text().replace("n3.13", "n3.12")}
    )
    (architecture,) = Template(ROOT / "template.yaml", BUILD_PLACE).resolved("ApiFunction", "Architectures")[
        "Architectures"
    ]
    assert Build(folder).target == Target(architecture, "3.12")
    assert Build(folder, architecture="arm64").target == Target("arm64", "3.12")
    with pytest.raises(BuildError, match=r"Lambda has no processor 'riscv': set Architecture in template\.yaml"):
        Build(folder, architecture="riscv")


@pytest.mark.usefixtures("unlocked")
def test_given_processor_precedes_that_of_nested_template(tmp_path: Path) -> None:
    template = rendered(Project("mine", "langgraph", Origin()))["template.yaml"]
    folder = project(tmp_path, {"template.yaml": template})
    assert Build(folder).target.architecture == machine_architecture()
    assert {Build(folder, architecture=each).target.architecture for each in PLATFORMS} == set(PLATFORMS)


@pytest.mark.usefixtures("unlocked")
def test_unknown_function_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BuildError, match=r"^Nobody is not a function of aion.*; the functions are ApiFunction, TaskFunction"
    ):
        Build(project(tmp_path), ["Nobody"])


@pytest.mark.usefixtures("unlocked")
def test_metadata_of_own_distribution_is_readable(tmp_path: Path) -> None:
    table = '[project]\nname = "Acme.Bot"\nversion = "1.2"\n[project.scripts]\nacme = "agent:main"\n'
    points = '[project.entry-points."acme.tools"]\none = "private.words:hello"\n'
    made = places(read(project(tmp_path, {"pyproject.toml": table + points})))
    found = {place: text for place, text in made.items() if place.startswith("acme_bot-1.2.dist-info/")}
    for place, text in found.items():
        assert isinstance(text, bytes)
        write(tmp_path / "task", {place: text.decode()})
    (own,) = metadata.distributions(path=[str(tmp_path / "task")])
    assert (own.name, own.version) == ("Acme.Bot", "1.2")
    assert {(point.group, point.name, point.value) for point in own.entry_points} == {
        ("console_scripts", "acme", "agent:main"),
        ("acme.tools", "one", "private.words:hello"),
    }


@pytest.mark.usefixtures("unlocked")
def test_private_key_in_project_fails_build(tmp_path: Path) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n"
    folder = project(tmp_path, {"deploy.pem": key})
    with pytest.raises(BuildError, match=r"deploy\.pem, line 1: a private key"):
        read(folder)
    (folder / ".aionignore").write_text("*.pem\n")
    assert "deploy.pem" not in places(read(folder))


@pytest.mark.usefixtures("unlocked")
@pytest.mark.parametrize("name", ["handlers/mine.py", "aion.py", "aion_tools/x.py"])
def test_reserved_module_names_in_project_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BuildError, match="is reserved for aion's own code"):
        places(read(project(tmp_path, {name: ""})))


@pytest.mark.usefixtures("unlocked")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("agent.py", "matched by .gitignore"),
        ("shared/words.py", "matched by .gitignore"),
        ("shared/words.py", "link out of the folder"),
    ],
)
def test_build_refuses_excluded_file_that_an_agent_needs(tmp_path: Path, name: str, reason: str) -> None:
    folder = project(tmp_path / "agents", {"shared/words.py": ""})
    (folder / "agent.py").write_text(f"import shared.words\n{AGENT}")
    if reason.startswith("link"):
        moved = (folder / name).rename(tmp_path / "moved.py")
        (folder / name).symlink_to(moved)
    else:
        (folder / ".gitignore").write_text(f"{name}\n")
    with pytest.raises(BuildError, match=f"{name} is excluded from the package: {reason}, but an agent needs it"):
        read(folder)


@pytest.mark.parametrize(("name", "python"), [("agent.py", "3.13"), ("private/words.py", "3.99")])
def test_syntax_error_is_reported_before_dependency_errors(tmp_path: Path, name: str, python: str) -> None:
    """Code that cannot be parsed would need every framework, whose requirements may conflict with the project's."""
    table = "[project]\nname = 'mine'\nversion = '1'\ndependencies = ['no-such']"
    folder = project(tmp_path, {"pyproject.toml": table, name: "x = 1\ndef (\n"})
    with pytest.raises(
        BuildError, match=rf"(?s)^{name} is not valid Python .*{name}\", line 2.*SyntaxError: "
    ) as refused:
        Build(folder, python=python)
    assert ("uv python install 3.99" in str(refused.value)) == (python == "3.99")


@pytest.mark.usefixtures("unlocked")
def test_langgraph_json_is_packaged_as_aion_yaml(tmp_path: Path) -> None:
    text = '{"graphs": {"mine": "./src/agent/graph.py:graph"}, "dependencies": [".", "cowsay==6.0"], "env": ".env"}'
    made = read(write(tmp_path, {"src/agent/graph.py": AGENT, "langgraph.json": text}))
    assert "cowsay==6.0" in made.declared.lines
    config = places(made)["aion.yaml"]
    assert isinstance(config, bytes)
    (tmp_path / "generated.yaml").write_bytes(config)
    assert read_deployment_config(tmp_path / "generated.yaml").agents["mine"].path == "src/agent/graph.py:graph"


@pytest.fixture(scope="module")
def only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the table of a pyproject.toml for an index that has only aion-lambda's requirements, as small wheels."""
    with index(requirements_of_aion(tmp_path_factory.mktemp("index"))) as url:
        yield ONLY.format(url)


def test_lock_without_aions_requirements_names_extra(tmp_path: Path, only: str) -> None:
    """A project that requires plain `aion-lambda` has no boto3 and no FastAPI in its lock."""
    project(tmp_path, {"pyproject.toml": pyproject("click") + only})
    run([find_uv(), "lock", "--quiet", "--project", str(tmp_path)])
    made = read(tmp_path)
    for function, lost in (("ApiFunction", "boto3, .*fastapi"), ("SweepFunction", "aws-lambda-powertools")):
        with pytest.raises(BuildError, match=rf"^uv\.lock lacks .*{lost}.*, which {function} needs: ") as refused:
            made.write(function, tmp_path / "package")
        assert "require aion-lambda[langgraph] in pyproject.toml, and run `uv lock`" in str(refused.value)


def test_build_adds_no_framework_for_unknown_import(tmp_path: Path, only: str) -> None:
    """A framework that the lock lacks would hide the error about the import."""
    code = "import no_such_module\ngraph = no_such_module.graph\n"
    project(tmp_path, {"agent.py": code, "pyproject.toml": pyproject("langgraph") + only})
    run([find_uv(), "lock", "--quiet", "--project", str(tmp_path)])
    assert read(tmp_path)._frameworks == {"langgraph"}


def test_extra_console_goes_into_api_function_only(copied: Path) -> None:
    made, wanted = read(copied), {"markdown-it-py", "pygments"}
    assert made._distributions("ApiFunction") >= wanted
    assert made._distributions("SweepFunction").isdisjoint(wanted)


# --- Packages ---


BESIDES = {"data.py": "same = 1\n", "data.txt": "theirs"}
"""Files of the wheel beside its package."""


@pytest.fixture(scope="module")
def locked_project(tmp_path_factory: pytest.TempPathFactory, only: str) -> Path:
    """Return a project with an executor and a wheel, and its uv.lock."""
    folder = tmp_path_factory.mktemp("project")
    content = {"mine/__init__.py": "theirs = 1", "mine/data/big.bin": "0" * 200_000, "mine/data/small.txt": ""}
    # The wheel's path is absolute: the copies then have the same lock, and share its wheels in the cache.
    written = wheel(tmp_path_factory.mktemp("vendor"), files={**content, **BESIDES})
    sources = f'[tool.uv.sources]\naion-lambda = {{ path = "{ROOT}" }}\nmine = {{ path = "{written}" }}\n'
    project(
        folder,
        {
            "pyproject.toml": pyproject("aion-lambda[api,console]", "mine") + sources + only,
            "agent.py": f"import mine\n{EXECUTOR}",
        },
    )
    run([find_uv(), "lock", "--quiet", "--project", str(folder)])
    return folder


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def copied(locked_project: Path, shared_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the project. All tests share a package cache."""
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(shared_cache))
    names = [file.relative_to(locked_project) for file in locked_project.rglob("*") if file.is_file()]
    for name in names:
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_bytes((locked_project / name).read_bytes())
    return tmp_path / "copy"


@pytest.fixture(autouse=True)
def own_code_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_code, "own_files", small_own_code)


def built(folder: Path, function: str = "TaskFunction", python: str | None = None) -> Package:
    made = Build(folder, architecture=machine_architecture(), python=python)
    target = tempfile.mkdtemp(dir=os.environ["AION_PACKAGE_CACHE"])
    return made.write(function, Path(target), link=True)


def test_functions_without_agents_have_no_files_of_project(copied: Path) -> None:
    task, sweep = (built(copied, name) for name in ("TaskFunction", "SweepFunction"))
    names, of_sweep = ({path.name for path in each.code.iterdir()} for each in (task, sweep))
    assert names >= {"agent.py", "aion.yaml", "private", "prompts", "mine", "a2a", "boto3", "aion_core", "handlers"}
    assert not names & {".env", ".git", "uv.lock", "fastapi", "langgraph", "moto", "aion_tools", "bin"}
    assert not of_sweep & {"agent.py", "aion.yaml", "private", "mine", "boto3", "fastapi"}
    assert of_sweep >= {"a2a", "aion_core", "handlers"}
    assert ([agent.id for agent in task.agents], sweep.agents) == (["mine"], ())
    assert sweep.size == sum(file.stat().st_size for file in sweep.code.rglob("*") if file.is_file())


def test_excluded_files_of_dependencies_are_left_out(copied: Path) -> None:
    assert (built(copied, "ApiFunction").code / "mine" / "data" / "big.bin").is_file()
    text = "aion: {exclude: ['mine/data/*.bin', fastapi/middleware/], agents: {mine: {path: agent.py}}}"
    (copied / "aion.yaml").write_text(text)
    made = built(copied, "ApiFunction")
    assert {file.name for file in (made.code / "mine" / "data").iterdir()} == {"small.txt"}
    assert not (made.code / "fastapi" / "middleware").exists()
    assert any("`exclude` in aion.yaml leaves out" in warning for warning in made.warnings)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("/private/", "`exclude` in aion.yaml has '/private/', which matches no file of a dependency"),
        (
            "fastapi/",
            "`exclude` in aion.yaml leaves no module of fastapi: narrow the pattern, or remove the dependency",
        ),
    ],
)
def test_excluding_nothing_or_a_whole_dependency_is_refused(copied: Path, pattern: str, said: str) -> None:
    """Files of the project, such as those in private/, are for .aionignore."""
    (copied / "aion.yaml").write_text(f"aion: {{exclude: ['{pattern}'], agents: {{mine: {{path: agent.py}}}}}}")
    with pytest.raises(BuildError, match=re.escape(said)):
        built(copied, "ApiFunction")


def test_bytecode_of_largest_is_dropped_above_limit(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = built(copied, "SweepFunction")
    monkeypatch.setattr(building, "LAMBDA_LIMIT", whole.size - 1)
    made = built(copied, "SweepFunction")
    assert made.size <= whole.size - 1
    if interpreter("3.13"):
        (warning,) = made.warnings
        assert "the .pyc files of" in warning
        assert "above Lambda's limit: cold starts are slower" in warning
    monkeypatch.setattr(building, "LAMBDA_LIMIT", 1000)
    with pytest.raises(
        BuildError, match=r"SweepFunction has \d+ MB without .*\nThe largest distributions: .*\n.*\(`exclude:`\), or"
    ):
        built(copied, "SweepFunction")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("mine/__init__.py", "rename mine, or add it to .aionignore: a dependency has a module with this name"),
        ("mine", "rename the file mine: a dependency has a folder with this name"),
        ("data.txt/own.txt", "rename the folder data.txt: a dependency has a file with this name"),
        ("mine/own.py", ""),
    ],
)
def test_project_file_does_not_replace_that_of_dependency(copied: Path, place: str, said: str) -> None:
    write(copied, {place: "own = 1"})
    if said:
        with pytest.raises(BuildError, match=said):
            built(copied)
    else:
        assert {each.name for each in (built(copied).code / "mine").glob("*.py")} == {"__init__.py", "own.py"}


def test_project_leaves_linked_cache_unchanged(copied: Path, shared_cache: Path) -> None:
    """A package is made of hard links to the cache: a build replaces a file, and does not write into it."""
    write(copied, {**BESIDES, "data.txt": "own"})
    made = built(copied)
    assert (made.code / "data.txt").read_text() == "own"
    assert {each.read_text() for each in shared_cache.glob("wheels-*/code/data.txt")} == {"theirs"}
    assert os.stat(made.code / "mine" / "__init__.py").st_nlink > 1


def zipped(folder: Path, function: str = "TaskFunction") -> bytes:
    archive = folder / ".aion" / f"{function}.zip"
    Build(folder, architecture=machine_architecture()).zip(function, archive)
    assert [each.name for each in archive.parent.iterdir()] == [archive.name]
    return archive.read_bytes()


@pytest.mark.parametrize("function", ["TaskFunction", "SweepFunction"])
def test_zip_contains_files_of_written_package(copied: Path, function: str) -> None:
    write(copied, {**BESIDES, "data.txt": "own", "run.sh": ""})
    wanted = {
        place: (file.read_bytes(), file.stat().st_mode)
        for place, file in files_in(built(copied, function).code).items()
    }
    with zipfile.ZipFile(io.BytesIO(zipped(copied, function))) as archive:
        assert len(archive.namelist()) == len(wanted)
        assert archive.testzip() is None
        found = {each.filename: (archive.read(each), each.external_attr >> 16) for each in archive.infolist()}
    assert found == wanted


def test_edited_project_reuses_finished_part(
    copied: Path, packages_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(packages_cache))
    first = zipped(copied)
    files = {path: path.stat().st_mtime for kind in ("part", "zip") for path in packages_cache.glob(f"{kind}-*/code*")}
    write(copied, {"agent.py": f"import mine\nanswer = 42\n{EXECUTOR}", "prompts/more.txt": "More"})
    second = zipped(copied)
    assert {path: path.stat().st_mtime for path in packages_cache.glob("*-*/code*") if path in files} == files
    assert len(list(packages_cache.glob("part-*/built"))) == len(list(packages_cache.glob("zip-*/built"))) == 1
    with zipfile.ZipFile(io.BytesIO(second)) as archive:
        assert b"answer = 42" in archive.read("agent.py")
        assert archive.read("prompts/more.txt") == b"More"
    write(copied, {"agent.py": f"import mine\n{EXECUTOR}"})
    (copied / "prompts" / "more.txt").unlink()
    assert zipped(copied) == first, "the same sources give the same bytes"
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(packages_cache / "empty"))
    assert zipped(copied) == first


def test_builds_at_once_write_equal_packages(
    copied: Path, packages_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(packages_cache))
    archives = [copied / ".aion" / name for name in ("one.zip", "two.zip", "one.zip")]
    build = Build(copied, architecture=machine_architecture())
    builds = [get_context("fork").Process(target=build.zip, args=("TaskFunction", archive)) for archive in archives]
    for each in builds:
        each.start()
    for each in builds:
        each.join()
        assert each.exitcode == 0
    assert {archive.read_bytes() for archive in archives} == {
        zipped(shutil.copytree(copied, copied / ".copy", ignore=shutil.ignore_patterns(".*")))
    }


def test_limit_is_exact_within_a_megabyte(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part is chosen for whole megabytes, but a package is refused by its own size."""
    write(copied, {"large.txt": "0" * 1_500_000})
    whole = built(copied)
    monkeypatch.setattr(building, "LAMBDA_LIMIT", whole.size)
    smallest = built(copied)
    assert smallest.size <= whole.size
    monkeypatch.setattr(building, "LAMBDA_LIMIT", smallest.size)
    assert built(copied).size == smallest.size
    monkeypatch.setattr(building, "LAMBDA_LIMIT", smallest.size - 1)
    with pytest.raises(BuildError, match=r"TaskFunction has \d MB without the .pyc files"):
        built(copied)


def test_missing_import_is_reported_with_remedy(copied: Path) -> None:
    (copied / "agent.py").write_text(f"import moto.core\n{EXECUTOR}")
    with pytest.raises(
        BuildError, match=r"agent\.py, line 1, imports moto\.core, but .* add the dependency with `uv add`"
    ):
        built(copied)


@pytest.mark.skipif(interpreter("3.14") is not None, reason="Python 3.14 is here")
def test_build_without_lambdas_python_warns(copied: Path) -> None:
    package = built(copied, "SweepFunction", python="3.14")
    assert not list(package.code.rglob("*.pyc"))
    (warning,) = package.warnings
    assert "no .pyc files" in warning
    assert "uv python install 3.14" in warning
