"""Locked dependencies: from uv.lock, or resolved with aion's own."""

import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from aion_tools.package.declared import declared
from aion_tools.package.functions import Target
from aion_tools.package.lock import Lock, locked
from aion_tools.programs import BuildError, find_uv, run
from tests.tools.unit.package.wheels import (
    HATCHLING,
    ONLY,
    library,
    pyproject,
    requirements_of_aion,
    sdist,
    sha256,
    wheel,
    write,
)

ARM = Target("arm64", "3.13")


def uv_lock(folder: Path, text: str) -> Path:
    """Write the pyproject.toml, let uv lock it, and return the project's folder."""
    write(folder, {"pyproject.toml": text})
    run([find_uv(), "lock", "--quiet", "--project", str(folder)])
    return folder


def lock_of(folder: Path) -> Lock:
    return locked(declared(folder), (), ARM)


def versions(lock: Lock) -> dict[str, str]:
    return {each["name"]: each.get("version", "") for each in (*lock.wheels, *lock.sources)}


def the(lock: Lock, name: str) -> Any:
    return next(each for each in (*lock.wheels, *lock.sources) if each["name"] == name)


# --- uv.lock ---


def test_uv_lock_determines_versions_and_hashes(tmp_path: Path, wheels: Path, served: str) -> None:
    first = wheel(wheels)
    folder = uv_lock(tmp_path / "project", pyproject("mine>=1") + ONLY.format(served))
    wheel(wheels, version="2.0")  # published after the lock
    (package,) = lock_of(folder).wheels
    assert (package["version"], package["wheels"][0]["hashes"]) == ("1.0", {"sha256": sha256(first)})


def test_group_agents_is_locked_but_not_development_groups(tmp_path: Path, wheels: Path, served: str) -> None:
    for name in ("mine", "tool", "linter"):
        wheel(wheels, name)
    groups = '[dependency-groups]\nagents = ["tool"]\ndev = ["linter"]\n'
    folder = uv_lock(tmp_path / "project", pyproject("mine") + groups + ONLY.format(served))
    assert set(versions(lock_of(folder))) == {"mine", "tool"}


def test_workspace_lock_belongs_to_its_members_only(tmp_path: Path, wheels: Path, served: str) -> None:
    wheel(wheels, "other")
    agent = write(tmp_path / "agents" / "one", {"pyproject.toml": pyproject("mine", name="one")})
    library(tmp_path / "libs" / "mine", {"pyproject.toml": pyproject("other", name="mine") + HATCHLING})
    workspace = (
        '[tool.uv]\nworkspace = { members = ["agents/*", "libs/*"] }\nsources = { mine = { workspace = true } }\n'
    )
    uv_lock(tmp_path, workspace + ONLY.format(served))
    lock = lock_of(agent)
    assert set(versions(lock)) == {"mine", "other"}
    assert [each["name"] for each in lock.sources] == ["mine"]
    assert declared(agent).lock == tmp_path / "uv.lock"
    assert declared(write(tmp_path / "elsewhere", {"agent.py": ""})).lock is None


def test_wheel_file_in_uv_lock_has_its_hash_and_place(tmp_path: Path) -> None:
    folder = tmp_path / "my projéct"  # a file URL encodes the space and the letter
    written = wheel(folder / "vendor")
    source = f'[tool.uv.sources]\nmine = {{ path = "vendor/{written.name}" }}\n'
    (package,) = lock_of(uv_lock(folder, pyproject("mine") + source)).wheels
    assert package["archive"] == {"path": str(written), "hashes": {"sha256": sha256(written)}}


# --- Hashes ---


def test_package_without_hash_in_uv_lock_is_refused(tmp_path: Path, wheels: Path, served: str) -> None:
    """`uv export` would compute the hash of what the server returns now."""
    wheel(wheels)
    folder = uv_lock(tmp_path / "project", pyproject("mine") + ONLY.format(served))
    lock = folder / "uv.lock"
    lock.write_text(re.sub(r', hash = "[^"]*"', "", lock.read_text()))
    with pytest.raises(BuildError, match=r"^mine 1\.0 has no hash in uv\.lock.* `uv lock --upgrade-package mine`"):
        lock_of(folder)
    run([find_uv(), "lock", "--quiet", "--upgrade-package", "mine", "--project", str(folder)])
    assert set(versions(lock_of(folder))) == {"mine"}


def test_other_hash_in_requirements_txt_is_refused(tmp_path: Path, wheels: Path, served: str) -> None:
    requirements_of_aion(wheels)
    found, wrong = sha256(wheel(wheels)), "0" * 64
    (tmp_path / "requirements.txt").write_text(
        f"--index-url {served}\nmine==1.0 \\\n    --hash=sha256:{wrong} # tampered\n"
    )
    with pytest.raises(BuildError) as refused:
        lock_of(tmp_path)
    said = f"mine 1.0 has another hash than in requirements.txt.\nExpected: sha256:{wrong}\nFound:    sha256:{found}"
    assert str(refused.value) == said


def test_only_files_with_permitted_hash_are_locked(tmp_path: Path, wheels: Path, served: str) -> None:
    requirements_of_aion(wheels)
    wheel(wheels, tag="cp313-cp313-manylinux_2_28_aarch64")
    permitted = sha256(wheel(wheels))
    sdist(wheels, "mine", {"pyproject.toml": pyproject(name="mine", version="1.0") + HATCHLING})
    (tmp_path / "requirements.txt").write_text(
        f"--index-url {served}\nmine==1.0 --hash=sha256:{'0' * 64} --hash=sha256:{permitted}\n"
    )
    package = the(lock_of(tmp_path), "mine")
    assert [each["hashes"]["sha256"] for each in package["wheels"]] == [permitted]
    assert "sdist" not in package


# --- Projects without uv.lock ---


def test_project_without_lock_is_resolved_with_aions_requirements(tmp_path: Path, wheels: Path, served: str) -> None:
    requirements_of_aion(wheels)
    wheel(wheels)
    wheel(wheels, "click", version="99.0")
    # Only aion-lambda's extra `otel` matters: its code comes from the installation, and its tools are not packaged.
    lines = f"--index-url={served}\n-r more.txt\naion-lambda[langgraph,local,otel]>=0.1\nclick<99\n"
    write(tmp_path, {"requirements.txt": lines, "more.txt": "mine\n"})
    lock = lock_of(tmp_path)
    found = versions(lock)
    assert found["mine"] == "1.0"
    assert found["click"] == version("click")
    assert {"boto3", "a2a-sdk", "fastapi", "opentelemetry-sdk"} <= set(found)
    assert not {"aion-lambda", "moto"} & set(found)
    assert lock.frameworks == set()


def test_exported_requirements_determine_versions_without_uv_lock(tmp_path: Path, wheels: Path, served: str) -> None:
    """Poetry 2 writes [project]; its lock is used by `poetry export`."""
    requirements_of_aion(wheels)
    for number in ("1.0", "2.0"):
        wheel(wheels, version=number)
        wheel(wheels, "click", version=f"9{number}")
    hashed = f"--hash=sha256:{sha256(wheel(wheels))}"
    requirements = f'--index-url {served}\nmine==1.0 ; python_version >= "3.11" \\\n    {hashed}\nclick==91.0\n'
    write(tmp_path, {"pyproject.toml": pyproject("mine (>=1,<3)"), "requirements.txt": requirements})
    found = versions(lock_of(tmp_path))
    assert (found["mine"], found["click"]) == ("1.0", "91.0")
    assert "requirements.txt (versions)" in declared(tmp_path).described


@pytest.mark.parametrize(
    "line",
    [
        "./my wheels/mine-1.0-py3-none-any.whl",
        "mine @ file:///${PROJECT_ROOT}/my%20wheels/mine-1.0-py3-none-any.whl",
    ],
)
def test_wheel_file_in_requirements_txt_has_its_hash(tmp_path: Path, line: str) -> None:
    written = wheel(tmp_path / "my wheels")
    (tmp_path / "requirements.txt").write_text(line)
    package = the(lock_of(tmp_path), "mine")
    assert package["archive"] == {"path": str(written), "hashes": {"sha256": sha256(written)}}


# --- Errors ---


@pytest.mark.parametrize(
    ("line", "lines"), [("httpx<0.24", 4), pytest.param("botocore<1.30", 13, marks=pytest.mark.deep)]
)
def test_conflict_is_explained_in_last_ten_lines(tmp_path: Path, line: str, lines: int) -> None:
    """uv explains the second conflict in more than thirty lines."""
    (tmp_path / "requirements.txt").write_text(f"{line}\n")
    with pytest.raises(BuildError, match=r"^the project's dependencies conflict with those of aion-lambda") as refused:
        lock_of(tmp_path)
    said = str(refused.value).splitlines()
    assert len(said) <= lines
    assert f"{line}, we can conclude that your requirements are unsatisfiable." in said[-1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("mine @ git+file:///nowhere/mine", "does not appear to be a git repository"),
        ("no-such-distribution-of-anybody", "not found in the package registry"),
    ],
)
def test_unavailable_dependency_is_not_reported_as_conflict(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "requirements.txt").write_text(f"{line}\n")
    with pytest.raises(BuildError, match=f"^the project's dependencies cannot be resolved.\n(.|\n)*{said}"):
        lock_of(tmp_path)


@pytest.mark.parametrize("line", ["--index-url {}", "mine @ {}mine-1.0-py3-none-any.whl"])
def test_error_hides_password_of_index_or_url(tmp_path: Path, line: str) -> None:
    (tmp_path / "requirements.txt").write_text(f"{line.format('https://user:p@ssword@127.0.0.1:99999/')}\nmine\n")
    with pytest.raises(BuildError, match=r"://\*+@127\.0\.0\.1") as refused:
        lock_of(tmp_path)
    assert "ssword" not in str(refused.value)


def test_tables_of_project_for_uv_apply_to_its_lock_only(tmp_path: Path, wheels: Path, served: str) -> None:
    """The constraints decide the lock; the installation, which has a lock, must not read them again."""
    for number in ("1.0", "2.0"):
        wheel(wheels, version=number)
        wheel(wheels, "other", version=number)
    settings = '[tool.uv]\nconstraint-dependencies = ["mine<2"]\noverride-dependencies = ["other<2"]\n'
    folder = uv_lock(tmp_path / "project", pyproject("mine", "other>=2") + settings + ONLY.format(served))
    assert versions(lock_of(folder)) == {"mine": "1.0", "other": "1.0"}


def test_git_repository_is_locked_by_its_commit(tmp_path: Path) -> None:
    source = library(tmp_path / "repository")
    for command in (["init", "--quiet"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@a", "commit", "-qm1"]):
        subprocess.run(["git", "-C", str(source), *command], check=True)
    commit = run(["git", "-C", str(source), "rev-parse", "HEAD"]).strip()
    folder = uv_lock(tmp_path / "project", pyproject(f"mine @ git+{source.as_uri()}"))
    (package,) = lock_of(folder).sources
    assert package["vcs"]["commit-id"] == commit
