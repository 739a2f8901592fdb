"""Examples of docs/models.md: each agent can be created in an environment with the provider's package."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from aion_tools.programs import find_uv
from tests.support.pages import blocks
from tests.support.server import ROOT

PACKAGES = sorted(set(re.findall(r'`uv add "?([^"`]+)"?`', (ROOT / "docs" / "models.md").read_text(encoding="utf-8"))))
BUILD = """
import json, os, sys
for block in json.load(sys.stdin):
    os.environ |= block["environment"]
    names = {"__name__": "guide"}
    exec(compile(block["code"], f"docs/models.md:{block['line']}", "exec"), names)
    agent = names.get("graph") or names["root_agent"]
    print(block["line"], type(agent).__name__)
"""


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_agents_in_models_guide_can_be_created(tmp_path: Path) -> None:
    """Create each agent with an invented key; no request is sent to a provider."""
    environment: dict[str, str] = {}
    examples = []
    for block in blocks("docs/models.md"):
        if block.language == "yaml":
            section = yaml.safe_load(block.code).get("aion", {})  # other blocks are of template.yaml
            environment = {**section.get("environment", {}), **dict.fromkeys(section.get("secrets", {}), "not-a-key")}
        elif block.language == "python":
            examples.append({"line": block.line, "code": block.code, "environment": environment})
    command = [find_uv(), "run", "--quiet", "--isolated", "--no-project", "--python", sys.executable]
    for package in [*PACKAGES, "google-adk"]:
        command += ["--with", package]
    aws = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
    built = subprocess.run(
        [*command, "python", "-c", BUILD],
        cwd=tmp_path,
        env={**os.environ, **aws, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        input=json.dumps(examples),
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    kinds = dict(line.split() for line in built.stdout.splitlines())
    assert [int(line) for line in kinds] == [example["line"] for example in examples]
    assert set(kinds.values()) == {"CompiledStateGraph", "LlmAgent"}
    assert len(PACKAGES) == 7
