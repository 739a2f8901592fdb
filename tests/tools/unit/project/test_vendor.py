"""Wheel of aion-lambda in a project, built from a clone or packed from installed files."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from aion_tools.programs import find_uv
from aion_tools.project import ProjectError, vendor
from aion_tools.project.origin import Origin, recorded
from tests.support.server import ROOT

WHEEL = recorded(None, is_local=True).wheel


def content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def installed(wheel: Path, environment: Path) -> Path:
    """Install the wheel into a new environment. Return the folder of its programs."""
    programs = environment / "bin"
    subprocess.run([find_uv(), "venv", "--quiet", "--python", sys.executable, str(environment)], check=True)
    command = [find_uv(), "pip", "install", "--quiet", "--no-deps", "--python", str(programs / "python"), str(wheel)]
    subprocess.run(command, check=True)
    return programs


@pytest.mark.deep
def test_wheel_packed_from_installed_files_equals_wheel_built_from_clone(tmp_path: Path) -> None:
    vendor.write(tmp_path, Origin(wheel=WHEEL, clone=str(ROOT)))
    built = tmp_path / WHEEL
    assert [file.name for file in built.parent.iterdir()] == [built.name]
    code = (
        "from pathlib import Path; from aion_tools.project import vendor; from aion_tools.project.origin import origin; "
        "vendor.write(Path('packed'), origin())"
    )
    subprocess.run([installed(built, tmp_path / "first") / "python", "-c", code], cwd=tmp_path, check=True)
    packed = tmp_path / "packed" / WHEEL
    assert content(packed) == content(built)
    assert (installed(packed, tmp_path / "second") / "aion").is_file()


def test_wheel_that_cannot_be_built_is_reported(tmp_path: Path) -> None:
    (tmp_path / "clone").mkdir()
    with pytest.raises(ProjectError, match=r"The wheel of aion-lambda could not be built in .*clone"):
        vendor.write(tmp_path, Origin(wheel=WHEEL, clone=str(tmp_path / "clone")))


def test_project_of_package_index_gets_no_wheel(tmp_path: Path) -> None:
    vendor.write(tmp_path, Origin())
    assert not any(tmp_path.iterdir())
