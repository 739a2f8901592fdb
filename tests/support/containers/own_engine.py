"""Docker engine of a test session: started in a temporary folder, with a bridge of its own and without rules of iptables."""

import ipaddress
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from tests.support import debian
from tests.support.containers.engine import ContainersMissing, DockerEngine, DockerError

NAME = "aiontest"
"""Start of the names of engines' folders and bridges. The id of the session's process follows."""
NETWORKS = [ipaddress.IPv4Network(f"172.31.{number}.0/24") for number in range(252, 240, -1)]
STARTED_IN = 120


@contextmanager
def own_engine(without: str) -> Iterator[DockerEngine]:
    """Start an engine, and stop it when the block ends. As root, install its packages. Raise ContainersMissing.

    `without` says why no engine answers. The engine ends with this process, also if the process is killed. Without rules
    of iptables, its containers reach this machine and each other, but not the internet. No test needs the internet.
    """
    if os.geteuid() != 0:
        raise ContainersMissing(f"no docker engine answers ({without}), and only root can start one")
    try:
        dockerd = debian.program("dockerd", package="docker.io")
        debian.program("docker", package="docker.io")
        debian.program("ip", package="iproute2")
    except debian.ProgramMissing as error:
        raise ContainersMissing(f"no docker engine answers ({without}), and none can start: {error}") from error
    _remove_remains()
    with TemporaryDirectory(prefix=f"{NAME}{os.getpid()}-") as folder, _bridge() as (bridge, gateway):
        engine = DockerEngine(f"unix://{folder}/docker.sock", gateway)
        command = [
            *("setpriv", "--pdeathsig", "TERM", dockerd, "--host", engine.host, "--bridge", bridge),
            *("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid"),
            # Do not change this machine's rules: containers reach its address in the bridge without them.
            *("--iptables=false", "--ip-forward=false", "--ip-masq=false"),
        ]
        log = Path(folder, "log")
        with log.open("wb") as output:
            process = subprocess.Popen(command, env=engine.environ, stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_for(engine, process, log)
            yield engine
        finally:
            process.terminate()
            process.wait(timeout=120)
            _unmount(folder)


def _wait_for(engine: DockerEngine, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + STARTED_IN
    while True:
        try:
            engine.docker("info", timeout=10)
        except DockerError as error:
            if process.poll() is not None or time.monotonic() > end:
                said = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
                raise ContainersMissing(f"dockerd does not start ({error}); the end of its log:\n{said}") from error
            time.sleep(0.2)
        else:
            return


@contextmanager
def _bridge() -> Iterator[tuple[str, str]]:
    """Create a bridge on a free network; yield its name and this machine's address in it.

    The default bridge docker0 may belong to another engine.
    """
    name, network = f"{NAME}{os.getpid()}", _free_network()
    gateway = str(next(network.hosts()))
    _ip("link", "add", name, "type", "bridge")
    try:
        _ip("address", "add", f"{gateway}/{network.prefixlen}", "dev", name)
        _ip("link", "set", name, "up")
        yield name, gateway
    finally:
        _ip("link", "delete", name)


def _free_network() -> ipaddress.IPv4Network:
    routes = [each["dst"] for each in json.loads(_ip("-json", "-4", "route")) if each["dst"] != "default"]
    taken = [ipaddress.IPv4Network(each) for each in routes]
    for network in NETWORKS:
        if not any(network.overlaps(each) for each in taken):
            return network
    raise ContainersMissing(f"this machine has routes to all of {NETWORKS[-1]} to {NETWORKS[0]}")


def _ip(*arguments: str) -> str:
    command = [shutil.which("ip", path=debian.PATH) or "ip", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ContainersMissing(f"no bridge for containers: `ip {' '.join(arguments)}`: {done.stderr.strip()}")
    return done.stdout


def _remove_remains() -> None:
    """Remove the bridges and folders of sessions that were killed."""
    for link in [each["ifname"] for each in json.loads(_ip("-json", "link"))]:
        if link.startswith(NAME) and not Path("/proc", link.removeprefix(NAME)).exists():
            _ip("link", "delete", link)
    for folder in Path(gettempdir()).glob(f"{NAME}*-*"):
        if not Path("/proc", folder.name.removeprefix(NAME).partition("-")[0]).exists():
            _unmount(str(folder))
            shutil.rmtree(folder)


def _unmount(folder: str) -> None:
    """Unmount what an engine leaves mounted in its folder, such as the namespace of containers in the host's network."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in reversed([each for each in mounted if each.startswith(f"{folder}/")]):
        subprocess.run(["umount", place], check=True)
