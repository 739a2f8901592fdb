"""Choice of SAM CLI (the program on PATH if it is new enough, else our own installation), and its runs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aion_tools.deploy import sam, sam_install
from aion_tools.deploy.errors import DeployError
from aion_tools.deploy.samconfig import SamConfig


def program(folder: Path, says: str, code: int = 0) -> Path:
    file = folder / "sam"
    file.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    file.chmod(0o755)
    return file


def test_recent_sam_on_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = program(tmp_path, "SAM CLI, version 1.160.2")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert sam_install.command() == found


@pytest.mark.parametrize(
    ("says", "code"), [("SAM CLI, version 1.99.0", 0), ("no version", 0), ("SAM CLI, version 1.160.0", 1)]
)
def test_old_or_broken_sam_on_path_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, code: int
) -> None:
    program(tmp_path, says, code)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert sam_install.command() == sam_install.installed() / "sam"


def test_failed_installation_hides_credentials_in_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "uv"
    program.write_text("#!/bin/sh\necho 'error: cannot fetch http://me:hunter2@127.0.0.1:9/simple/' >&2\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setenv("UV", str(program))
    monkeypatch.setattr(sam_install, "HOME", tmp_path / "sam")
    with pytest.raises(sam_install.SamMissing) as failed:
        sam_install.installed()
    assert str(failed.value) == ("SAM CLI could not be installed:\nerror: cannot fetch http://****@127.0.0.1:9/simple/")


def test_sam_uses_account_of_environment_instead_of_samconfigs(tmp_path: Path) -> None:
    """Keep the profile of samconfig.toml from SAM CLI, which would prefer it to the credentials of the environment."""
    found = tmp_path / "sam"
    found.write_text('#!/bin/sh\nwhile [ "$1" != --config-file ]; do shift; done; cp "$2" seen.toml\n')
    found.chmod(0o755)
    section = 'profile = "staging"\nresolve_s3 = true  # ours\n'
    text = f"[default.global.parameters]\n{section}[default.deploy.parameters]\n{section}"
    (tmp_path / "samconfig.toml").write_text(text)
    sam.Sam(found, tmp_path, SamConfig.read(tmp_path / "samconfig.toml")).deploy("mine", "us-east-1", {})
    assert (tmp_path / "seen.toml").read_text() == text.replace('profile = "staging"\n', "")


def test_build_writes_images_before_sam_reads_them(tmp_path: Path) -> None:
    """`aion build` fails here, because the project has no agent: SAM isn't called."""
    (tmp_path / "aion.yaml").write_text("aion: {image: true, agents: {mine: {path: agent.py}}}")
    with pytest.raises(DeployError, match=r"`aion build` failed"):
        sam.Sam(Path("/nowhere"), tmp_path, SamConfig.read(tmp_path / "samconfig.toml")).build()


BUILD = """
import signal
import subprocess
import sys
from pathlib import Path
from aion_tools.deploy.sam import Sam
from aion_tools.deploy.samconfig import SamConfig
# The tests' own process may ignore these signals, as after nohup.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

class SlowStart(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        sys.stdin.read()

if sys.argv[2] == "starting":
    subprocess.Popen = SlowStart
folder = Path(sys.argv[1])
Sam(folder / "sam", folder, SamConfig.read(folder / "samconfig.toml")).build()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups")
@pytest.mark.parametrize(
    ("number", "moment"),
    [(signal.SIGINT, "starting"), (signal.SIGINT, "running"), (signal.SIGTERM, "running"), (signal.SIGHUP, "starting")],
)
def test_interrupted_deploy_ends_sam_and_its_children(tmp_path: Path, number: signal.Signals, moment: str) -> None:
    (tmp_path / "sam").write_text("#!/bin/sh\nexec 3>fifo\n(echo started; sleep 60; echo finished) >&3 & wait\n")
    (tmp_path / "sam").chmod(0o755)
    os.mkfifo(tmp_path / "fifo")
    command = [sys.executable, "-c", BUILD, str(tmp_path), moment]
    deploying = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert deploying.stdin
    # The end of the file is the end of all processes that write to it.
    with deploying.stdin, (tmp_path / "fifo").open() as written:
        assert written.readline() == "started\n"
        deploying.send_signal(number)
        deploying.stdin.close()
        assert written.read() == ""
    assert deploying.wait()
