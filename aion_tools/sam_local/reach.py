"""Address of this machine that containers reach, tried in a container."""

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network

from aion_tools.sam_local.engine import Engine, EngineError

LOOPBACK = "127.0.0.1"
_DESKTOP = "host.docker.internal"
"""Name of this machine in containers of Docker Desktop. Its connections arrive at this machine's loopback address."""
_ROOTLESS = "10.0.2.2"
"""This machine in containers of rootless docker, if it does not disable the host's loopback address."""
_WAITS = ("python3", "-c", "import time; time.sleep(600)")
_CONNECTS = """
import json, socket, sys
host, port = sys.argv[1:]
socket.create_connection((host, int(port)), 3).close()
print(json.dumps(sorted({address[4][0] for address in socket.getaddrinfo(host, None)})))
"""
_NETWORKS = "{{range .NetworkSettings.Networks}}{{.Gateway}}/{{.IPPrefixLen}} {{end}}"


@dataclass(frozen=True)
class Reach:
    """Address of this machine, for the machine and for containers."""

    host: str
    """Address to listen at."""
    name: str
    """The same address for containers."""
    networks: tuple[str, ...]
    """Networks in which containers see it."""


def find(engine: Engine, image: str, host: str = "") -> Reach:
    """Return the address: `host`, or one that other machines do not reach. `image` is an image with Python.

    Raises EngineError if containers do not reach it.
    """
    tried = []
    with engine.container(image, *_WAITS) as container:
        given = [(host, host, "")] if host else []
        for host, name, network in given or _candidates(engine, container):
            try:
                listener = socket.create_server((host, 0))
            except OSError:
                continue  # no address of this machine, such as a gateway in the virtual machine of Docker Desktop
            with listener:
                port = str(listener.getsockname()[1])
                try:
                    answer = engine.run("exec", container, "python3", "-c", _CONNECTS, name, port)
                except EngineError as error:
                    tried.append(f"{name} ({str(error).rpartition(': ')[2]})")
                    continue
            addresses = json.loads(answer)
            return Reach(host, name, (network,) if network else tuple(str(ip_network(each)) for each in addresses))
    raise EngineError(_unreachable(tried or [host], is_rootless=engine.is_rootless))


def _candidates(engine: Engine, container: str) -> Iterator[tuple[str, str, str]]:
    """Yield addresses to listen at, their names in containers, and their networks if they are known."""
    # The gateway of the container's bridge is this machine. The bridge exists at least as long as the container.
    for found in engine.run("inspect", container, "--format", _NETWORKS).split():
        gateway, _, length = found.partition("/")
        if gateway:
            yield gateway, gateway, str(ip_network(f"{gateway}/{length}", strict=False))
    yield LOOPBACK, _DESKTOP, ""
    if engine.is_rootless:
        yield LOOPBACK, _ROOTLESS, ""


def _unreachable(tried: list[str], *, is_rootless: bool) -> str:
    if is_rootless:
        remedy = (
            "Start rootless docker (26 or newer) with DOCKERD_ROOTLESS_ROOTLESSKIT_DISABLE_HOST_LOOPBACK=false, or give an "
            "address of this machine by --host; other machines may reach it too."
        )
    else:
        remedy = (
            "If a firewall drops their connections, allow those of docker's bridge (`sudo ufw allow in on docker0`), or give "
            "another address of this machine by --host."
        )
    return (
        f"Containers do not reach this machine at {' or '.join(tried)}, so the functions could not use the emulated AWS. "
        f"{remedy}"
    )
