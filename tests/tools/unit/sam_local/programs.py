"""Stand-ins for `docker` and `sam` on PATH. Docker's runs the commands of a container on this machine."""

import os
import sys
from pathlib import Path

DOCKER = """
import json, os, subprocess, sys

command, *arguments = sys.argv[1:]
with open(os.path.join(os.path.dirname(__file__), "docker.log"), "a") as log:
    log.write(" ".join([command, *arguments])[:100] + "\\n")
match command:
    case "version":
        print("amd64")
    case "info":
        print("[name=seccomp,profile=default name=rootless]" if "@rootless@" == "True" else "[name=seccomp]")
    case "context":
        print("unix:///of/the/context.sock")
    case "run":
        print("the-container")
    case "inspect":
        print("@gateway@/8 ")
    case "exec":
        _, program, *rest = arguments
        sys.exit(subprocess.run([sys.executable, *rest]).returncode)
    case "image" | "ps" | "rm":
        pass
    case _:
        sys.exit(f"unknown command {command}")
"""
SAM = """
import http.server, json, os, shutil, signal, sys, threading

log = os.path.join(os.path.dirname(__file__), "sam.log")


def wrote(**said):
    with open(log, "a") as file:
        file.write(json.dumps(said) + "\\n")


def option(name):
    return sys.argv[sys.argv.index(name) + 1]


def built():
    folder = option("--build-dir")
    shutil.copytree(".aion/stacks", os.path.join(folder, "Aion"))
    text = open("template.yaml").read().replace(".aion/stacks/template.yaml", "Aion/template.yaml")
    open(os.path.join(folder, "template.yaml"), "w").write(text)
    wrote(built=folder, architecture=os.environ["AION_ARCHITECTURE"])


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, body = int(os.environ.get("TEST_STATUS", "200")), b"{}"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def served(command):
    if os.environ.get("TEST_FAILS") == command:
        print("Error: the template is empty", flush=True)
        sys.exit(1)
    variables = {name: os.environ.get(name) for name in ("DOCKER_HOST", "AWS_PROFILE", "AWS_ACCESS_KEY_ID")}
    mode = oct(os.stat(option("--env-vars")).st_mode & 0o777)
    wrote(command=command, options=sys.argv[3:], mode=mode, file=json.load(open(option("--env-vars"))), environ=variables)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(option("--port"))), Answers)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()
    wrote(ended=command)


match sys.argv[1:]:
    case ["--version"]:
        print("SAM CLI, version 1.170.0")
    case ["build", *_]:
        built()
    case ["local", command, *_]:
        served(command)
"""


def program(folder: Path, name: str, code: str) -> Path:
    """Write a program in Python into the folder, and return its path."""
    file = folder / name
    file.write_text(f"#!{sys.executable}\n{code}")
    file.chmod(0o755)
    return file


def docker(folder: Path, gateway: str = "127.0.0.1", *, rootless: bool = False) -> Path:
    """Write docker's stand-in, whose bridge has this gateway, and return its path."""
    return program(folder, "docker", DOCKER.replace("@gateway@", gateway).replace("@rootless@", str(rootless)))


def calls(folder: Path) -> list[str]:
    """Return the commands that docker's stand-in has got."""
    return (folder / "docker.log").read_text().splitlines()


def path_with(folder: Path) -> str:
    """Return PATH with the programs of this folder, and with what they need."""
    return os.pathsep.join([str(folder), str(Path(sys.executable).parent), "/usr/bin", "/bin"])
