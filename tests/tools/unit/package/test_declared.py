"""Dependencies that a project declares."""

from pathlib import Path

import pytest

from aion_tools.package.declared import check, check_python, declared
from aion_tools.programs import BuildError, find_uv, run
from tests.tools.unit.package.wheels import pyproject, sha256, wheel, write


def test_requirements_txt_is_read_with_files_that_it_includes(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "requirements.txt": "\ufeff-r more/indexes.txt\n# comment\ncowsay==6.0 \\\n  --hash=sha256:0a \\\n  --hash=sha256:0b\n"
            "Other.Name[x]==1 # pinned\nfree>=2\n./lib/mine\naion-lambda[langgraph,local,otel]>=0.1\n",
            "more/indexes.txt": "-r ../requirements.txt\n--extra-index-url=https://me:secret@one.example/\n-i https://two.example/\n",
        },
    )
    found = declared(tmp_path, ["added"])
    assert found.sources == (tmp_path / "requirements.txt",)
    assert {"cowsay==6.0", "free>=2", "./lib/mine", "added"} <= set(found.lines)
    assert found.pins == ["cowsay==6.0", "Other.Name[x]==1"]
    assert found.hashes == {"cowsay": {"0a", "0b"}}
    assert found.indexes == ["https://me:secret@one.example/", "https://two.example/"]
    assert found.extras == {"otel"}


def test_indexes_of_project_and_its_workspace_are_found(tmp_path: Path) -> None:
    own = 'index = [{ name = "own", url = "https://example.com/simple", explicit = true }]\n'
    workspace = f"[tool.uv]\nextra-index-url = ['https://b.example']\nworkspace = {{ members = ['agent'] }}\n{own}"
    agent = write(
        tmp_path / "agent", {"pyproject.toml": pyproject(name="agent"), "uv.toml": 'index-url = "https://a.example"\n'}
    )
    write(tmp_path, {"pyproject.toml": workspace})
    run([find_uv(), "lock", "--quiet", "--project", str(tmp_path)])
    assert set(declared(agent).indexes) == {"https://a.example", "https://b.example", "own=https://example.com/simple"}


def test_requirements_txt_is_used_if_pyproject_lists_no_dependencies(tmp_path: Path) -> None:
    table = "[project]\nname = 'my-agent'\nversion = '1'\n"
    write(tmp_path, {"pyproject.toml": table, "requirements.txt": "cowsay==6.0\n"})
    assert declared(tmp_path).lines == ("cowsay==6.0",)
    write(tmp_path, {"pyproject.toml": f"{table}dependencies = ['httpx']\n[dependency-groups]\nagents = ['click']\n"})
    found = declared(tmp_path)
    assert (found.lines, found.also, found.has_group) == (("httpx", "click"), ("click",), True)
    assert found.pins == ["cowsay==6.0"]
    assert found.described.startswith("pyproject.toml, requirements.txt (versions) (no uv.lock: ")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"pyproject.toml": '[tool.poetry.dependencies]\ncowsay = "6"\n'}, r"poetry export --output requirements\.txt"),
        ({"Pipfile": '[packages]\ncowsay = "*"\n'}, r"pipenv requirements > requirements\.txt"),
        (
            {"setup.py": "raise SystemExit('not run')\nsetup(install_requires=['cowsay'])\n"},
            r"install_requires.* in setup\.py",
        ),
        ({"setup.cfg": "[options]\ninstall_requires =\n  cowsay\n"}, r"install_requires.* in setup\.cfg"),
    ],
)
def test_error_names_unread_file_and_its_remedy(tmp_path: Path, files: dict[str, str], said: str) -> None:
    with pytest.raises(BuildError, match=rf"{said}.*"):
        declared(write(tmp_path, files))
    write(tmp_path, {"requirements.txt": "-i https://pypi.org/simple\ncowsay==6.1\n"})
    assert "cowsay==6.1" in declared(tmp_path).lines


def test_setup_cfg_without_dependencies_is_not_refused(tmp_path: Path) -> None:
    assert declared(write(tmp_path, {"setup.cfg": "[flake8]\n"})).lines == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[project\n", "is not valid TOML"),
        ("[project]\nname='a'\ndependencies=5\n", "project.dependencies is not a list"),
        ("tool=1\n", "tool is not a table"),
        ("[dependency-groups]\nagents=3\n", "dependency-groups.agents is not a list"),
    ],
)
def test_error_names_broken_pyproject(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(BuildError, match=said):
        declared(tmp_path)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_requirements_in_another_encoding_are_refused(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "requirements.txt").write_bytes("cowsay  # über".encode(encoding))
    with pytest.raises(BuildError, match=r"is not UTF-8 .*: save it as UTF-8.* -Encoding utf8 requirements\.txt`$"):
        declared(tmp_path)


@pytest.mark.parametrize("wanted", [">=3.14", "<3.13"])
def test_project_for_other_python_is_refused(tmp_path: Path, wanted: str) -> None:
    (tmp_path / "pyproject.toml").write_text(pyproject().replace(">=3.11", wanted))
    with pytest.raises(BuildError, match=f"requires Python {wanted}, but the package is for Python 3.13"):
        check_python(tmp_path, "3.13")


@pytest.mark.parametrize("wanted", [">=3.13.5", "<=3.13", "==3.13.*", "not a version"])
def test_project_that_allows_any_patch_version_is_accepted(tmp_path: Path, wanted: str) -> None:
    (tmp_path / "pyproject.toml").write_text(pyproject().replace(">=3.11", wanted))
    check_python(tmp_path, "3.13")


def test_check_compares_lock_with_pyproject(tmp_path: Path) -> None:
    written = wheel(tmp_path)
    write(tmp_path, {"pyproject.toml": pyproject(f"mine @ {written.as_uri()}")})
    run([find_uv(), "lock", "--quiet", "--project", str(tmp_path)])
    check(tmp_path)
    assert sha256(written) in (tmp_path / "uv.lock").read_text()
    write(tmp_path, {"pyproject.toml": pyproject()})
    with pytest.raises(BuildError, match=r"uv\.lock does not match pyproject\.toml"):
        check(tmp_path)
