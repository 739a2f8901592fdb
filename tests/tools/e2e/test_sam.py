"""`sam validate` and `sam build` on this project. `containers/test_sam_local.py` runs `sam local` on it."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from aion_tools.deploy import sam_install
from aion_tools.package.cache import cache
from aion_tools.programs import machine_architecture
from aion_tools.sam_local.env_file import PLAIN
from aion_tools.stack.stack import SETTINGS
from tests.support.server import ROOT
from tests.tools.e2e.packages import clone, file_states, package_here

pytestmark = [
    # Allow fifteen minutes, because the first test installs SAM if necessary, and builds four packages.
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def sam() -> Path:
    """Return the folder of SAM's programs."""
    return sam_install.installed()


def run(command: list[str], cwd: Path = ROOT, **environ: str) -> str:
    uv_is_found = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment = {**os.environ, **sam_install.ENVIRONMENT, **SETTINGS, **uv_is_found, **environ}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(sam: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of `sam build` in a clone, for this machine's processor."""
    copied = clone(tmp_path_factory.mktemp("checkout") / "aion")
    # Build without samconfig.toml, because SAM then builds in a copy of the folder, and this build must work too.
    config = copied / "samconfig.toml"
    config.rename(config.with_name(".samconfig.aside"))
    template = copied / "template.yaml"
    template.write_text(template.read_text().replace("Default: x86_64", f"Default: {machine_architecture()}"))
    run([str(sam / "sam"), "build"], cwd=copied, AION_PACKAGE_CACHE=str(cache()))
    return copied / ".aws-sam" / "build"


@pytest.mark.deep
def test_sam_validates_template(sam: Path) -> None:
    assert "is a valid SAM Template" in run([str(sam / "sam"), "validate", "--lint"])


@pytest.mark.deep
def test_sam_build_and_aion_build_produce_same_files(built: Path) -> None:
    """Build the project by `sam build` and by `aion build`, and compare the files."""
    assert "CodeUri: ApiFunction" in (built / "template.yaml").read_text()
    for function in ("ApiFunction", "SweepFunction"):
        assert file_states(built / function) == file_states(package_here(function).code)


@pytest.mark.deep
def test_sam_build_in_copy_writes_environment_of_project(built: Path) -> None:
    file = built.parents[1] / PLAIN
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["Parameters"]["AION_STORE"] == "memory"
