"""The container engine: found, or an error that says what to do."""

from pathlib import Path

import pytest

from aion_tools.sam_local.engine import Engine, EngineError
from tests.tools.unit.sam_local.programs import calls, docker, program

FAILS = "import sys; sys.exit('{said}')"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, whose programs alone are found."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    return tmp_path


def test_missing_docker_is_named_with_alternatives(programs: Path) -> None:
    with pytest.raises(
        EngineError, match=r"^docker is not installed, .* https://docs\.docker\.com.*`aion dev` needs no"
    ):
        Engine.found()
    program(programs, "podman", "")
    with pytest.raises(EngineError, match=r"docker's program is not installed\. For podman install podman-docker"):
        Engine.found()


REFUSED = {
    "Cannot connect to the Docker daemon at unix:///s. Is the docker daemon running?": (
        r"^docker does not run \(Cannot connect .*running\?\)\. Start it: `sudo systemctl start docker`, or Docker Desktop\."
    ),
    "permission denied while trying to connect to the Docker daemon socket": (
        r"^You may not use docker \(permission denied .*`sudo usermod -aG docker \$USER`, then log in again\."
    ),
}


@pytest.mark.parametrize(("said", "told"), REFUSED.items(), ids=["stopped", "forbidden"])
def test_engine_that_refuses_is_named_with_remedy(programs: Path, said: str, told: str) -> None:
    program(programs, "docker", FAILS.format(said=said))
    with pytest.raises(EngineError, match=told):
        Engine.found()


def test_wrong_docker_host_is_named(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(programs, "docker", FAILS.format(said="Cannot connect to the Docker daemon at tcp://nowhere"))
    monkeypatch.setenv("DOCKER_HOST", "tcp://nowhere")
    with pytest.raises(EngineError, match=r"Start it, or correct DOCKER_HOST, which is tcp://nowhere\."):
        Engine.found()


def test_sam_gets_the_engine_of_dockers_context(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = docker(programs)
    assert Engine.found() == Engine(str(found), "unix:///of/the/context.sock", "x86_64")
    monkeypatch.setenv("DOCKER_HOST", "unix:///of/the/user.sock")
    assert Engine.found().host == "unix:///of/the/user.sock"


def test_container_is_removed_at_the_end_of_block(programs: Path) -> None:
    engine = Engine(str(docker(programs)), "", "arm64")
    with engine.container("image", "sleep", "9") as container:
        assert container == "the-container"
        assert len(calls(programs)) == 1
    assert calls(programs) == ["run --detach --entrypoint sleep image 9", "rm --force --volumes the-container"]


def test_failed_pull_names_the_image(programs: Path) -> None:
    engine = Engine(str(program(programs, "docker", "import sys; sys.exit(1)")), "", "arm64")
    assert not engine.has("public.ecr.aws/lambda/python:3.13-arm64")
    with pytest.raises(EngineError, match=r"^The image public.* cannot be pulled .*`docker logout public\.ecr\.aws`"):
        engine.pull("public.ecr.aws/lambda/python:3.13-arm64")
