"""Addition of packages to a project, by the real uv."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from aion_tools.programs import find_uv
from aion_tools.project import ProjectError
from aion_tools.project.dependencies import add

PYPROJECT = """\
[project]
name = "mine"
version = "0.1.0"
requires-python = ">=3.11"
# Mine.
dependencies = []

[dependency-groups]
dev = ["toml"]

[tool.uv]
package = false
"""


@pytest.fixture(autouse=True)
def _environment_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset UV_PROJECT_ENVIRONMENT, because `make` sets it to this repository's environment."""
    monkeypatch.delenv("UV_PROJECT_ENVIRONMENT", raising=False)


def installed(environment: Path) -> set[str]:
    command = [find_uv(), "pip", "list", "--quiet", "--format", "freeze", "--python", str(environment)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return {line.partition("==")[0] for line in ran.stdout.splitlines()}


def environment(folder: Path) -> Path:
    subprocess.run([find_uv(), "venv", "--quiet", "--python", sys.executable, folder], check=True)
    return folder


def test_add_command_does_not_install_dev_tools_in_uv_project(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    said = add(tmp_path, ["iniconfig>=2"])
    assert said == "iniconfig>=2: added to pyproject.toml and uv.lock, and installed."
    text = (tmp_path / "pyproject.toml").read_text()
    assert tomllib.loads(text)["project"]["dependencies"] == ["iniconfig>=2"]
    assert "# Mine.\n" in text
    assert 'name = "iniconfig"' in (tmp_path / "uv.lock").read_text()
    assert installed(tmp_path / ".venv") == {"iniconfig"}


def test_add_keeps_installed_packages(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    subprocess.run([find_uv(), "sync", "--quiet", "--python", sys.executable], cwd=tmp_path, check=True)
    add(tmp_path, ["iniconfig"])
    assert installed(tmp_path / ".venv") == {"iniconfig", "toml"}


def test_add_of_unknown_package_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    with pytest.raises(ProjectError, match=r"could not be added to pyproject\.toml:\n(.|\n)*iniconfig"):
        add(tmp_path, ["iniconfig>999"])
    assert (tmp_path / "pyproject.toml").read_text() == PYPROJECT
    assert not (tmp_path / "uv.lock").exists()


def test_add_hides_password_of_an_invalid_index(tmp_path: Path) -> None:
    index = '[[tool.uv.index]]\nurl = "https://user:password@127.0.0.1:99999/simple"\n'
    (tmp_path / "pyproject.toml").write_text(PYPROJECT + index)
    with pytest.raises(ProjectError, match=r'url = "https://\*+@127\.0\.0\.1:99999/simple"'):
        add(tmp_path, ["iniconfig"])


def test_add_to_requirements_appends_line(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# Mine.\ntoml")
    own = environment(tmp_path / ".venv")
    assert add(tmp_path, ["iniconfig>=2"]) == "iniconfig>=2: added to requirements.txt, and installed."
    assert (tmp_path / "requirements.txt").read_text() == "# Mine.\ntoml\niniconfig>=2\n"
    assert installed(own) == {"iniconfig"}


@pytest.mark.parametrize("text", ["[tool.ruff]\n", "[project]\nname = 'mine'\nversion = '1'\n"])
def test_add_uses_requirements_beside_pyproject_without_dependencies(tmp_path: Path, text: str) -> None:
    """`aion build` reads this requirements.txt only while pyproject.toml has no dependencies."""
    (tmp_path / "pyproject.toml").write_text(text)
    (tmp_path / "requirements.txt").write_text("toml\n")
    add(tmp_path, ["iniconfig"], environment=environment(tmp_path / ".venv"))
    assert (tmp_path / "requirements.txt").read_text() == "toml\niniconfig\n"
    assert (tmp_path / "pyproject.toml").read_text() == text


def test_add_to_requirements_writes_package_once(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("Ini.Config\n")
    environment(tmp_path / ".venv")
    (tmp_path / "requirements.txt").write_text("INICONFIG>=1\n")
    assert add(tmp_path, ["iniconfig"]) == "iniconfig: already in requirements.txt, and installed."
    assert (tmp_path / "requirements.txt").read_text() == "INICONFIG>=1\n"


def test_failed_install_leaves_requirements_file_unchanged(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("toml\n")
    environment(tmp_path / ".venv")
    with pytest.raises(ProjectError, match="could not be installed:\n"):
        add(tmp_path, ["iniconfig>999"])
    assert (tmp_path / "requirements.txt").read_text() == "toml\n"


def test_add_installs_into_given_environment(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("")
    mine = environment(tmp_path / "mine")
    add(tmp_path, ["iniconfig"], environment=mine)
    assert installed(mine) == {"iniconfig"}


def test_add_command_does_not_install_into_temporary_uvx_environment(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("")
    tool = environment(tmp_path / "tool")
    (tool / "uv-receipt.toml").touch()
    said = add(tmp_path, ["iniconfig"], environment=tool)
    assert "uvx --with-requirements requirements.txt" in said
    assert (tmp_path / "requirements.txt").read_text() == "iniconfig\n"
    assert installed(tool) == set()


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("poetry.lock", "", r"belongs to another dependency tool\. Run: poetry add iniconfig"),
        ("pyproject.toml", "[tool.poetry]\n", r"has no \[project\] table\. Run: poetry add iniconfig"),
        (
            "pyproject.toml",
            "[tool.ruff]\n",
            r"has no \[project\] table .* or list the dependencies in a requirements\.txt",
        ),
        ("notes.txt", "", r"neither a pyproject\.toml nor a requirements\.txt .* uvx --with iniconfig --from"),
    ],
)
def test_add_in_project_of_other_dependency_tool_prints_its_command(
    tmp_path: Path, file: str, text: str, sentence: str
) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(ProjectError, match=sentence):
        add(tmp_path, ["iniconfig"])
    assert [path.name for path in tmp_path.iterdir()] == [file]


@pytest.mark.parametrize(
    ("file", "content", "error"),
    [
        ("pyproject.toml", b"[project", r"pyproject\.toml is not valid TOML: Expected"),
        ("pyproject.toml", b"# \xe9", r"pyproject\.toml is not UTF-8"),
        ("requirements.txt", "toml\n".encode("utf-16"), r"requirements\.txt is not UTF-8"),
    ],
)
def test_add_to_unreadable_file_names_the_file(tmp_path: Path, file: str, content: bytes, error: str) -> None:
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ProjectError, match=error):
        add(tmp_path, ["iniconfig"])
    assert (tmp_path / file).read_bytes() == content


def test_add_reads_file_with_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8-sig")
    add(tmp_path, ["iniconfig"])
    assert "iniconfig" in (tmp_path / "pyproject.toml").read_text()


@pytest.mark.parametrize("package", ["--index-url=https://example.com", "-e.", "./folder", ""])
def test_add_accepts_only_package_requirements(tmp_path: Path, package: str) -> None:
    (tmp_path / "requirements.txt").write_text("")
    with pytest.raises(ProjectError, match="is not a package name"):
        add(tmp_path, [package])


def test_add_command_without_uv_names_uv_installation_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'mine'\nversion = '1'\n")
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(ProjectError, match=r"could not be added to pyproject\.toml: uv is not installed: https://"):
        add(tmp_path, ["cowsay"])
