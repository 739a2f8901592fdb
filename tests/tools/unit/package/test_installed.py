"""Installed dependencies: verified, prepared, and chosen for a function. Only local distributions."""

import os
import re
from pathlib import Path

import pytest

from aion_tools.package.cache import cache
from aion_tools.package.functions import Target
from aion_tools.package.installed import Installed
from aion_tools.package.lock import Lock
from aion_tools.programs import BuildError, find_uv
from tests.tools.unit.package.test_lock import ARM, lock_of, uv_lock
from tests.tools.unit.package.wheels import HATCHLING, ONLY, index, library, pyproject, sdist, sha256, wheel

SETUPTOOLS = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'


def places(installed: Installed, *names: str) -> set[str]:
    return {file.place for file in installed.files(names or installed.names)}


def text_of(installed: Installed, place: str) -> str:
    (file,) = (each for each in installed.files(installed.names) if each.place == place)
    return file.source.read_text()


# --- Verification ---


def test_changed_hash_in_uv_lock_is_refused_with_both_hashes(tmp_path: Path, wheels: Path, served: str) -> None:
    found = sha256(wheel(wheels))
    folder = uv_lock(tmp_path / "project", pyproject("mine") + ONLY.format(served))
    Installed(lock_of(folder), ARM)  # the caches of uv and of the build have the right file
    (folder / "uv.lock").write_text((folder / "uv.lock").read_text().replace(found, "0" * 64))
    with pytest.raises(BuildError, match=r"cannot install the dependencies for arm64 and Python 3\.13") as refused:
        Installed(lock_of(folder), ARM)
    for word in ("mine", f"sha256:{'0' * 64}", f"sha256:{found}"):
        assert word in str(refused.value)


def test_wheel_for_other_processor_is_refused_by_name(tmp_path: Path, wheels: Path, served: str) -> None:
    wheel(wheels, tag="cp313-cp313-manylinux_2_28_x86_64")
    lock = lock_of(uv_lock(tmp_path / "project", pyproject("mine") + ONLY.format(served)))
    assert places(Installed(lock, Target("x86_64", "3.13"))) >= {"mine.py"}
    with pytest.raises(BuildError, match=r"arm64 and Python 3\.13(.|\n)*mine"):
        Installed(lock, ARM)


# --- Indexes with passwords ---


def test_password_of_index_is_in_no_argument_and_no_error(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(wheels)
    program = tmp_path / "uv"
    program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/arguments\nexec {find_uv()} "$@"\n')
    program.chmod(0o755)
    with index(wheels, password="hunter2") as url:
        settings = '[[tool.uv.index]]\nname = "own"\nurl = "{}"\nexplicit = true\n'
        source = '[tool.uv.sources]\nmine = { index = "own" }\n'
        folder = uv_lock(tmp_path / "project", pyproject("mine") + settings.format(url) + source)
        assert "hunter2" not in (folder / "uv.lock").read_text()
        monkeypatch.setenv("UV", str(program))
        # The index of the project takes precedence over the developer's.
        monkeypatch.setenv("UV_INDEX", "http://127.0.0.1:9")
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
        lock = lock_of(folder)
        assert "mine.py" in places(Installed(lock, ARM))
        (wheels / "mine-1.0-py3-none-any.whl").unlink()
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "another"))
        monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
        with pytest.raises(BuildError, match="404") as refused:
            Installed(lock, ARM)
    arguments = (tmp_path / "arguments").read_text()
    assert "pip install" in arguments
    assert "hunter2" not in arguments + str(refused.value)


# --- Sources ---


def test_changed_code_of_local_folder_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    folder = tmp_path / "my projéct"
    source = library(folder / "lib" / "mine", {".python-version": "3.99", "mine/tests/test_it.py": ""})
    uv_lock(folder, pyproject("mine") + '[tool.uv.sources]\nmine = { path = "lib/mine", editable = true }\n')
    installed = Installed(lock_of(folder), ARM)
    assert (installed.built, text_of(installed, "mine/__init__.py")) == (["mine"], "value = 1\n")
    assert "mine/tests/test_it.py" not in places(installed)
    # A package may have hard links to these files.
    assert all(file.source.is_relative_to(cache()) for file in installed.files(["mine"]))
    assert Installed(lock_of(folder), ARM).digest == installed.digest
    (source / "mine" / "__init__.py").write_text("value = 2\n")
    changed = Installed(lock_of(folder), ARM)
    assert text_of(changed, "mine/__init__.py") == "value = 2\n"
    assert changed.digest != installed.digest


@pytest.mark.deep
def test_python_sdist_is_built_and_verified(tmp_path: Path, wheels: Path, served: str) -> None:
    files = {"pyproject.toml": pyproject(name="mine", version="1.0") + HATCHLING, "mine/__init__.py": "value = 3\n"}
    found = sha256(sdist(wheels, "mine", files))
    folder = uv_lock(tmp_path / "project", pyproject("mine") + ONLY.format(served))
    # The build tools come from PyPI, which the installation asks besides the project's index.
    installed = Installed(lock_of(folder), ARM)
    assert (installed.built, text_of(installed, "mine/__init__.py")) == (["mine"], "value = 3\n")
    (folder / "uv.lock").write_text((folder / "uv.lock").read_text().replace(found, "0" * 64))
    with pytest.raises(BuildError, match=rf"(?s)mine.*{'0' * 64}.*{found}"):
        Installed(lock_of(folder), ARM)


@pytest.mark.deep
def test_sdist_with_native_code_is_refused_by_name(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": pyproject(name="mine", version="1.0") + SETUPTOOLS,
        "setup.py": "from setuptools import Extension, setup\nsetup(ext_modules=[Extension('mine', ['mine.c'])])\n",
        "mine.c": '#include <Python.h>\nstatic struct PyModuleDef m = {PyModuleDef_HEAD_INIT, "mine", 0, -1, 0};\n'
        "PyMODINIT_FUNC PyInit_mine(void) { return PyModule_Create(&m); }\n",
    }
    written = sdist(tmp_path / "vendor", "mine", files)
    source = f'[tool.uv.sources]\nmine = {{ path = "vendor/{written.name}" }}\n'
    folder = uv_lock(tmp_path, pyproject("mine") + source)
    for target in (ARM, Target("x86_64", "3.13")):
        with pytest.raises(BuildError, match=rf"mine(.|\n)*Build the wheel of native code for {target.architecture}"):
            Installed(lock_of(folder), target)


# --- Content ---


def test_data_and_entry_points_of_dependency_are_installed(tmp_path: Path, wheels: Path, served: str) -> None:
    """Also a file with the name of one that the build writes."""
    files = {
        "mine/__init__.py": "",
        "mine/words.json": "{}",
        "requirements.txt": "theirs",
        "pylock.toml": "theirs",
        "mine-1.0.data/data/share/mine.txt": "",
        "mine-1.0.dist-info/entry_points.txt": "[words]\none = mine\n",
        "mine-1.0.dist-info/licenses/LICENSE": "",
    }
    wheel(wheels, files=files)
    installed = Installed(lock_of(uv_lock(tmp_path / "project", pyproject("mine") + ONLY.format(served))), ARM)
    kept = {file for file in files if ".data/" not in file} | {"share/mine.txt", "mine-1.0.dist-info/METADATA"}
    assert {place for place in places(installed) if not place.endswith(".pyc")} == kept
    assert text_of(installed, "pylock.toml") == "theirs"


def test_only_distributions_that_a_function_needs_are_chosen(tmp_path: Path, wheels: Path, served: str) -> None:
    wheel(
        wheels, requires='other ; sys_platform == "linux"\nRequires-Dist: tool ; extra == "more"\nProvides-Extra: more'
    )
    for name, requires in {"other": "mine", "tool": "deep", "deep": "", "windows": ""}.items():
        wheel(wheels, name, requires=requires)
    folder = uv_lock(tmp_path / "project", pyproject("mine[more]") + ONLY.format(served))
    installed = Installed(lock_of(folder), ARM)
    assert installed.reachable(["mine"]) == {"mine", "other"}
    assert installed.reachable(["Mine[more]>=0"]) == {"mine", "other", "tool", "deep"}
    assert installed.reachable(["mine[more]"], without=["tool"]) == {"mine", "other"}
    assert installed.missing(["mine", "boto3>=1"], without=["boto3"]) == []
    assert installed.missing(["mine", "boto3>=1"]) == ["boto3"]


def test_models_of_aws_services_are_kept_if_code_names_them(tmp_path: Path, wheels: Path, served: str) -> None:
    models = {f"botocore/data/{name}/service-2.json": "{}" for name in ("s3", "ec2", "iam", "textract", "bedrock")}
    wheel(wheels, "botocore", {"botocore/__init__.py": "all = ['iam']", **models})
    wheel(wheels, files={"mine.py": "import boto3\nmodel = boto3.client('ec2')\n"})
    wheel(wheels, "other", {"other.py": "words = ['textract']\n"})
    dependencies = pyproject("botocore", "mine", "other") + ONLY.format(served)
    installed = Installed(lock_of(uv_lock(tmp_path / "project", dependencies)), ARM)

    def kept(*names: str, words: tuple[str, ...] = ()) -> set[str]:
        found = (re.match("botocore/data/([^/]+)", file.place) for file in installed.files(names, words))
        return {each[1] for each in found if each}

    assert kept("botocore", "other") == {"s3"}
    assert kept("botocore", "mine", "other", words=("bedrock",)) == {"s3", "ec2", "bedrock"}


def test_wheels_are_installed_once_for_equal_locks(
    tmp_path: Path, wheels: Path, served: str, packages_cache: Path
) -> None:
    wheel(wheels)
    lock = lock_of(uv_lock(tmp_path / "project", pyproject("mine") + ONLY.format(served)))
    first, second = (Installed(lock, ARM).files(["mine"]) for _ in range(2))
    assert first == second
    assert {os.stat(file.source).st_mtime for file in first} == {os.stat(file.source).st_mtime for file in second}
    assert len(list(packages_cache.glob("wheels-arm64-3.13-*/built"))) == 1
    Installed(lock, Target("x86_64", "3.13"))
    assert len(list(packages_cache.glob("wheels-*/built"))) == 2
    assert Installed(Lock((), ()), ARM).names == set()


def test_failed_installation_leaves_no_cache_entry(tmp_path: Path, wheels: Path, served: str) -> None:
    written = wheel(wheels)
    lock = lock_of(uv_lock(tmp_path / "project", pyproject(f"mine @ {written.as_uri()}")))
    moved = written.rename(tmp_path / "aside")
    for _ in range(2):
        with pytest.raises(BuildError, match=written.name):
            Installed(lock, ARM)
    moved.rename(written)
    assert Installed(lock, ARM).names == {"mine"}
