"""The address of this machine that containers reach; docker's stand-in runs their commands here."""

from pathlib import Path

import pytest

from aion_tools.sam_local.engine import Engine, EngineError
from aion_tools.sam_local.reach import Reach, find
from tests.tools.unit.sam_local.programs import calls, docker, path_with

NOT_HERE = "192.0.2.1"
"""Address of no machine (RFC 5737)."""


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path_with(tmp_path))


def test_gateway_of_bridge_is_preferred(tmp_path: Path) -> None:
    engine = Engine(str(docker(tmp_path)), "", "arm64")
    assert find(engine, "image") == Reach("127.0.0.1", "127.0.0.1", ("127.0.0.0/8",))
    assert calls(tmp_path)[-1] == "rm --force --volumes the-container"


def test_given_address_replaces_the_found_one(tmp_path: Path) -> None:
    engine = Engine(str(docker(tmp_path, NOT_HERE)), "", "arm64")
    assert find(engine, "image", "127.0.0.2") == Reach("127.0.0.2", "127.0.0.2", ("127.0.0.2/32",))
    with pytest.raises(EngineError, match=rf"^Containers do not reach this machine at {NOT_HERE}, so"):
        find(engine, "image", NOT_HERE)


@pytest.mark.parametrize(
    ("rootless", "told"),
    [
        (False, r"at host\.docker\.internal \(.*\), so .*`sudo ufw allow in on docker0`"),
        (
            True,
            r"at host\.docker\.internal \(.*\) or 10\.0\.2\.2 \(.*DISABLE_HOST_LOOPBACK=false, or give .* by --host",
        ),
    ],
    ids=["docker", "rootless docker"],
)
def test_unreachable_machine_is_an_error_with_remedy(tmp_path: Path, *, rootless: bool, told: str) -> None:
    engine = Engine(str(docker(tmp_path, NOT_HERE)), "", "arm64", rootless)
    with pytest.raises(EngineError, match=told):
        find(engine, "image")
    assert calls(tmp_path)[-1] == "rm --force --volumes the-container"
