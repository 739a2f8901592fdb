"""Requirements of Lambda packages, from aion's extras and the project's dependencies. Needs a package index."""

import re
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from aion_tools.package.requirements import TESTED, check, check_python, indexes, required_by, resolved, wanted

from aion_tools.programs import BuildError, find_uv, run
from aion_tools.shipped import shipped
from tests.tools.unit.package.wheels import hashed, wheel

PROJECT = """
[project]
name = "my-agent"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = [{}]
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path_factory.mktemp("packages")))


def lines_of(folder: Path, *extras: str, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Resolve the dependencies of this project, and return the lines of its requirements (`name==version`)."""
    text = resolved(
        extras or ("aws",), wanted(folder), without=without, architecture="arm64", python="3.13", folder=folder
    )
    pinned = [line.removesuffix(" \\") for line in text.splitlines() if line and not line.startswith(" ")]
    return dict(line.split("==" if "==" in line else " @ ") for line in pinned)


def test_extra_that_includes_another_extra_is_resolved_to_packages() -> None:
    api = required_by("api")
    assert {line.split(">")[0].split("~")[0] for line in api} >= {"a2a-sdk[http-server]", "boto3", "fastapi", "httpx"}
    assert not any(line.startswith("aion-lambda") or "moto" in line for line in api)
    assert any(line.startswith("pydantic") for line in required_by(""))


def test_shipped_list_of_tested_versions_equals_uv_lock() -> None:
    command = [
        find_uv(),
        "export",
        "--quiet",
        "--frozen",
        "--no-header",
        "--no-annotate",
        "--no-hashes",
        "--all-extras",
    ]
    exported = run([*command, "--no-default-groups", "--no-emit-project", "--project", str(shipped())])
    assert TESTED.read_text() == exported, "run `make lock`"


def test_project_without_lock_file_is_packaged_with_tested_versions(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("cowsay==6.0\naion-lambda[langgraph,local,otel]>=0.1\n# a comment\n")
    found = lines_of(tmp_path)
    tested = dict(line.split(" ;")[0].split("==") for line in TESTED.read_text().splitlines() if "==" in line)
    assert found["cowsay"] == "6.0"
    assert found["boto3"] == tested["boto3"]
    assert "aion-lambda" not in found
    assert "moto" not in found
    assert wanted(tmp_path).extras == {"otel"}


def test_packaged_versions_come_from_lock_file_of_project(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT.format('"cowsay>=6", "idna<3.11"'))
    run([find_uv(), "lock", "--quiet", "--project", str(tmp_path)])
    (tmp_path / "uv.lock").write_text((tmp_path / "uv.lock").read_text())
    found = lines_of(tmp_path, "push")
    assert found["idna"].startswith("3.10")
    assert "cowsay" in found


def test_requirements_txt_may_require_older_version_than_tested(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("urllib3<2.6\n")
    assert lines_of(tmp_path)["urllib3"].startswith("2.5")


def test_exported_requirements_determine_versions_without_uv_lock(tmp_path: Path) -> None:
    """Poetry 2 writes [project]; its lock is used by `poetry export`."""
    (tmp_path / "pyproject.toml").write_text(PROJECT.format('"cowsay (>=5,<7)"'))
    (tmp_path / "requirements.txt").write_text(
        'cowsay==6.0 ; python_version >= "3.11" \\\n    --hash=sha256:00\nurllib3==2.5.0\n'
    )
    found = lines_of(tmp_path)
    assert (found["cowsay"], found["urllib3"]) == ("6.0", "2.5.0")
    assert "requirements.txt (versions)" in wanted(tmp_path).described


def test_requirements_txt_is_used_if_pyproject_lists_no_dependencies(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'my-agent'\nversion = '1'\n")
    (tmp_path / "requirements.txt").write_text("cowsay==6.0\n")
    assert lines_of(tmp_path)["cowsay"] == "6.0"


def test_workspace_lock_determines_packaged_versions(tmp_path: Path) -> None:
    agent, library = tmp_path / "agents" / "one", tmp_path / "libs" / "shared"
    for folder, dependencies in ((agent, '"shared", "urllib3"'), (library, '"cowsay==6.0"')):
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").write_text(
            PROJECT.replace("my-agent", folder.name).format(dependencies)
            + '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        )
    (library / "shared").mkdir()
    (library / "shared" / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(
        '[tool.uv]\nconstraint-dependencies = ["urllib3<2.6"]\nworkspace = { members = ["agents/*", "libs/*"] }\n'
        "sources = { shared = { workspace = true } }\n"
    )
    run([find_uv(), "lock", "--quiet", "--project", str(tmp_path)])
    found = lines_of(agent)
    assert wanted(agent).lock == tmp_path / "uv.lock"
    assert (found["cowsay"], found["urllib3"][:3]) == ("6.0", "2.5")
    assert found["shared"].endswith("-any.whl")
    (tmp_path / "other").mkdir()
    assert wanted(tmp_path / "other").lock is None


def test_lock_with_conflicting_extras_is_read(tmp_path: Path) -> None:
    extras = "[project.optional-dependencies]\na = ['cowsay==6.0']\nb = ['cowsay==6.1']\n"
    conflicts = "[tool.uv]\nconflicts = [[{ extra = 'a' }, { extra = 'b' }]]\n"
    (tmp_path / "pyproject.toml").write_text(PROJECT.format('"idna<3.11"') + extras + conflicts)
    run([find_uv(), "lock", "--quiet", "--project", str(tmp_path)])
    assert lines_of(tmp_path)["idna"].startswith("3.10")


def test_build_refuses_lock_file_that_contradicts_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT.format('"cowsay==6.0"'))
    run([find_uv(), "lock", "--quiet", "--project", str(tmp_path)])
    (tmp_path / "pyproject.toml").write_text(PROJECT.format('"cowsay>6.0"'))
    with pytest.raises(BuildError, match=r"uv\.lock has cowsay 6\.0, but .* requires cowsay>6\.0: run `uv lock`"):
        lines_of(tmp_path)


@pytest.mark.parametrize("declared", [">=3.14", "<3.13"])
def test_build_refuses_project_for_other_python(tmp_path: Path, declared: str) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT.format("").replace(">=3.11", declared))
    with pytest.raises(BuildError, match=f"requires Python {declared}, but the package is for Python 3.13"):
        check_python(tmp_path, "3.13")


@pytest.mark.parametrize("declared", [">=3.13.5", "<=3.13", "==3.13.*", "not a version"])
def test_build_accepts_project_that_allows_any_python_patch_version(tmp_path: Path, declared: str) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT.format("").replace(">=3.11", declared))
    check_python(tmp_path, "3.13")


def test_package_index_of_each_uv_source_is_found(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.uv]\nindex = [{ name = 'own', url = 'https://example.com/simple', explicit = true }]\n"
        "[tool.uv.sources]\nMy_lib = { index = 'own' }\nother = [{ index = 'own' }, { path = 'other' }]\n"
    )
    assert indexes(tmp_path) == {
        "my-lib": ["own=https://example.com/simple"],
        "other": ["own=https://example.com/simple"],
    }


def test_build_refuses_lock_file_lacking_new_dependency(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT.format('"idna"'))
    run([find_uv(), "lock", "--quiet", "--project", str(tmp_path)])
    (tmp_path / "pyproject.toml").write_text(PROJECT.format('"idna", "cowsay"'))
    with pytest.raises(BuildError, match=r"uv\.lock lacks cowsay of pyproject.toml: run `uv lock`"):
        lines_of(tmp_path)


def local_library(library: Path) -> Path:
    """Write a distribution with the name `mine` into the folder, and return the folder."""
    (library / "mine").mkdir(parents=True)
    (library / "mine" / "__init__.py").touch()
    (library / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "0.3.0"\n'
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    )
    return library


def test_dependency_in_folder_is_built_by_lambda_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    library = local_library(tmp_path / "mine")
    (library / ".python-version").write_text("3.99")
    (tmp_path / "requirements.txt").write_text("./mine\n")
    assert lines_of(tmp_path)["mine"].endswith("-none-any.whl")


def test_dependency_in_folder_is_built_as_wheel(tmp_path: Path) -> None:
    tmp_path /= "my projéct"  # a file URL encodes the space and the letter
    library = local_library(tmp_path / "lib" / "mine")
    sources = '[tool.uv.sources]\nmine = { path = "lib/mine" }\n'
    (tmp_path / "pyproject.toml").write_text(PROJECT.format('"mine"') + sources)
    run([find_uv(), "lock", "--quiet", "--project", str(tmp_path)])
    before = lines_of(tmp_path)["mine"]
    assert before.endswith("-none-any.whl")
    (library / "mine" / "__init__.py").write_text("changed = True\n")
    assert lines_of(tmp_path)["mine"] != before, "the lock is the same, the code is not"


@pytest.mark.parametrize(
    "line",
    [
        "./my wheels/mine-1.0-py3-none-any.whl",
        "mine @ {wheel}",
        "mine @ file:my%20wheels/mine-1.0-py3-none-any.whl",
        "mine @ file:///${{PROJECT_ROOT}}/my%20wheels/mine-1.0-py3-none-any.whl",
    ],
)
def test_wheel_file_is_required_with_one_hash(tmp_path: Path, line: str) -> None:
    written = wheel(tmp_path / "my wheels")
    (tmp_path / "requirements.txt").write_text(line.format(wheel=written.as_uri()))
    text = resolved(("aws",), wanted(tmp_path), without=(), architecture="arm64", python="3.13", folder=tmp_path)
    (found,) = (each for each in re.split(r"\n(?=\S)", text) if each.startswith("mine"))
    assert found == hashed(f"mine @ {written.as_uri()} \\\n   ", written)


def test_locked_wheel_file_is_not_reported_as_missing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT.format(f'"mine @ {wheel(tmp_path).as_uri()}"'))
    run([find_uv(), "lock", "--quiet", "--project", str(tmp_path)])
    check(tmp_path)


def test_error_hides_password_of_an_invalid_index(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("--index-url https://user:p@ssword@127.0.0.1:99999/\n")
    with pytest.raises(BuildError, match=r"https://\*+@127\.0\.0\.1:99999"):
        lines_of(tmp_path)


def test_error_hides_password_of_a_refused_wheel(tmp_path: Path) -> None:
    name = wheel(tmp_path).name
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        line = f"mine @ http://user:password@127.0.0.1:{server.server_port}/{name}"
        (tmp_path / "requirements.txt").write_text(line)
        with pytest.raises(BuildError) as refused:
            lines_of(tmp_path)
        server.shutdown()
    assert re.match(r"'mine @ http://\*+@127\.0\.0\.1:\d+/.*' is not from an index", str(refused.value))


def test_git_dependency_is_refused(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("mine @ git+https://127.0.0.1:9/mine.git\n")
    with pytest.raises(BuildError, match=r"127\.0\.0\.1"):
        lines_of(tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("mine @ git+file:///nowhere/mine", "Git operation failed"),
        ("mine @ file:///nowhere/mine-1.0-py3-none-any.whl", "mine-1.0-py3-none-any.whl"),
    ],
)
def test_unavailable_dependency_is_not_reported_as_version_conflict(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "requirements.txt").write_text(f"{line}\n")
    with pytest.raises(BuildError, match=f"^the project's dependencies cannot be resolved.\n(.|\n)*{said}"):
        lines_of(tmp_path)


def test_conflicting_requirements_are_explained(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("pydantic<2\n")
    with pytest.raises(BuildError, match=r"conflict with those of aion-lambda(.|\n)*pydantic"):
        lines_of(tmp_path)


def test_packaged_requirements_omit_excluded_boto3(tmp_path: Path) -> None:
    assert not {"boto3", "botocore"} & set(lines_of(tmp_path, "aws", without=("boto3",)))


def test_poetry_project_error_names_export_command(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.poetry.dependencies]\ncowsay = "6"\n')
    with pytest.raises(BuildError, match=r"poetry export --output requirements\.txt"):
        wanted(tmp_path)


def test_pipenv_project_error_names_export_command(tmp_path: Path) -> None:
    (tmp_path / "Pipfile").write_text('[packages]\ncowsay = "*"\n')
    with pytest.raises(BuildError, match=r"pipenv requirements > requirements\.txt"):
        wanted(tmp_path)
    (tmp_path / "requirements.txt").write_text("-i https://pypi.org/simple\ncowsay==6.1\n")
    assert wanted(tmp_path).sources == (tmp_path / "requirements.txt",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("setup.py", "raise SystemExit('not to be run')\nsetup(install_requires=['cowsay'])\n"),
        ("setup.cfg", "[options]\ninstall_requires =\n  cowsay\n"),
    ],
)
def test_error_names_unread_dependencies_of_setuptools(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BuildError, match=rf"\(install_requires\) are in {name}.* or in a requirements\.txt"):
        wanted(tmp_path)
    (tmp_path / "requirements.txt").write_text("cowsay==6.1\n")
    assert wanted(tmp_path).sources == (tmp_path / "requirements.txt",)
    (tmp_path / "requirements.txt").unlink()
    (tmp_path / name).write_text("[flake8]\n")
    assert wanted(tmp_path).sources == ()


def test_error_names_broken_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project\n")
    with pytest.raises(BuildError, match="is not valid TOML"):
        wanted(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[project]\nname='a'\ndependencies=5\n", "project.dependencies is not a list"),
        ("project=1\n", "project is not a table"),
        ("tool=1\n", "tool is not a table"),
        ("dependency-groups=[]\n", "dependency-groups is not a table"),
        ("[dependency-groups]\nagents=3\n", "dependency-groups.agents is not a list"),
    ],
)
def test_error_names_pyproject_with_wrong_types(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(BuildError, match=said):
        wanted(tmp_path)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_requirements_in_another_encoding_are_refused(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "requirements.txt").write_bytes("cowsay  # über".encode(encoding))
    with pytest.raises(BuildError, match=r"is not UTF-8 .*: save it as UTF-8.* -Encoding utf8 requirements\.txt`$"):
        wanted(tmp_path)


def test_requirements_txt_with_hashes_is_read(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(
        "aion-lambda[otel]==0.1.0 \\\n    --hash=sha256:00\ncowsay==6.0 --hash=sha256:00\n"
    )
    assert wanted(tmp_path).extras == {"otel"}
