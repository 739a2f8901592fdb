"""Imports: each part of the source imports and loads only permitted modules."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = sorted(
    path
    for folder in ("aion", "aion_core", "aion_tools", "handlers", "scripts", "examples")
    for path in (ROOT / folder).rglob("*.py")
)


# Folders that may import boto3: the AWS adapters, the local emulator, `aion deploy`, the repository's
# tools, and an example with signed requests.
KNOW_BOTO = ("aion_core/aws", "aion_tools", "scripts", "examples/delegation")


def test_only_aws_adapters_import_boto3() -> None:
    for path in SOURCES:
        if any(path.is_relative_to(ROOT / folder) for folder in KNOW_BOTO):
            continue
        found = re.search(r"^ *(?:import|from) boto(?:3|core)\b", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert not found, path.relative_to(ROOT)


STEPS: list[tuple[str, set[str]]] = [
    ("aion_core.lambda_runtime", {"aion_core.web", "boto3", "fastapi", "httpx", "a2a"}),
    # `aion card` does not load the agent, and an unsigned card needs no cryptography.
    ("aion_core.loading.agent_cards", {"boto3", "fastapi", "langgraph", "google.adk", "a2a.server", "cryptography"}),
    # The app imports no framework and no database driver, because each agent loads its own framework.
    ("aion_core.bootstrap", {"langgraph", "google.adk", "fastapi", "sqlalchemy", "moto", "uvicorn"}),
    ("handlers.sweep", {"langgraph", "google.adk", "fastapi", "mangum", "aws_lambda_powertools", "moto", "grpc"}),
    ("handlers.run_task", {"langgraph", "google.adk", "fastapi", "mangum", "sqlalchemy", "moto", "grpc"}),
    # The API does not use the SDK's request handlers, because they would load the SDK's client and queues.
    (
        "handlers.api",
        {"langgraph", "google.adk", "sqlalchemy", "moto", "grpc", "a2a.server.request_handlers", "cryptography"},
    ),
]
"""Modules in an order in which each may load more than those before it, and what it must not load."""
LAST = [
    ("aion_core.state.langgraph.checkpoints", {"google.adk"}),
    ("aion_core.state.adk.sessions", {"langgraph", "langchain_core"}),
]
PROGRAM = """
import importlib, os, sys

def load(module, never):
    importlib.import_module(module)
    for name in sorted(never & sys.modules.keys()):
        print(f"{module} loads {name}", flush=True)

for step in STEPS:
    load(*step)
for step in LAST:
    if not (child := os.fork()):
        load(*step)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, step
"""


def test_imported_module_does_not_load_forbidden_packages() -> None:
    """Import the modules in a new process, one after the other, and each of the last ones in a fork of it."""
    program = f"STEPS, LAST = {STEPS!r}, {LAST!r}\n{PROGRAM}"
    environ = {"AION_STORE": "memory", "PATH": "/usr/bin:/bin"}
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, env=environ)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
