"""Code blocks of all pages: a test runs or checks each block, or the page names the service that the block needs."""

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest

from aion_core.bootstrap import build_app
from aion_core.loading.deployment import read_deployment_config
from aion_core.settings import Settings
from aion_tools.template.file import parsed
from tests.support.pages import PAGES, SCRIPTS, Block, blocks
from tests.support.rows import each_row
from tests.support.server import ROOT
from tests.support.service import http, send

BLOCKS = "tests/repository/docs/test_blocks.py"
RUN_BY = {
    ("README.md", "sh"): "tests/tools/e2e/test_dev.py",
    ("README.md", "python"): "tests/repository/docs/test_readme.py",
    ("CONTRIBUTING.md", "sh"): BLOCKS,
    ("tests/README.md", "sh"): BLOCKS,
    ("docs/adk.md", "python"): "tests/runtime/unit/agents/adk/test_guide.py",
    ("docs/aion-extensions.md", "json"): BLOCKS,
    ("docs/browser.md", "js"): "tests/runtime/e2e/test_browser.py",
    ("docs/browser.md", "sh"): "tests/runtime/e2e/test_browser.py",
    ("docs/cards.md", "python"): "tests/repository/docs/test_cards.py",
    ("docs/cards.md", "sh"): "tests/repository/docs/test_cards.py",
    ("docs/chat.md", "sh"): "tests/tools/e2e/test_chat.py",
    ("docs/clients.md", "python"): "tests/tools/e2e/test_clients_guide.py",
    ("docs/clients.md", "sh"): "tests/tools/e2e/test_clients_guide.py",
    ("docs/clients.md", "ts"): "tests/tools/e2e/test_clients_guide.py",
    ("docs/console.md", "sh"): "tests/tools/e2e/test_dev.py",
    ("docs/deploy.md", "sh"): "tests/tools/unit/cli/test_stacks.py",
    ("docs/durability.md", "sh"): "tests/runtime/e2e/test_faults.py",
    ("docs/errors.md", "json"): "tests/repository/docs/test_errors.py",
    ("docs/executor.md", "python"): "tests/runtime/unit/agents/executor/test_guide.py",
    ("docs/langgraph.md", "python"): "tests/repository/docs/test_langgraph.py",
    ("docs/models.md", "python"): "tests/tools/e2e/test_models_guide.py",
    ("docs/observability.md", "python"): "tests/runtime/unit/bootstrap/test_exporters.py",
    ("docs/packages.md", "sh"): "tests/tools/e2e/test_installed.py",
    ("docs/projects.md", "python"): "tests/repository/docs/test_projects.py",
    ("docs/projects.md", "sh"): "tests/tools/e2e/test_installed.py",
    ("docs/push.md", "go"): "tests/runtime/unit/push/test_receiver_examples.py",
    ("docs/push.md", "json"): BLOCKS,
    ("docs/push.md", "python"): "tests/runtime/unit/push/test_receiver_examples.py",
    ("docs/push.md", "typescript"): "tests/runtime/unit/push/test_receiver_examples.py",
    ("docs/replies.md", "json"): BLOCKS,
    ("docs/runbook.md", "json"): "tests/tools/contract/test_erasure.py",
    ("docs/security.md", "python"): "tests/repository/docs/test_security.py",
    ("docs/shapes.md", "python"): "tests/runtime/unit/agents/langgraph/test_shapes.py",
    ("docs/why.md", "sh"): "tests/tools/unit/cli/test_why.py",
}
"""Tests that run the blocks of a page in one language, or the same commands as the blocks."""
RUN_BY |= {
    (page.relative_to(ROOT).as_posix(), "sh"): "tests/tools/e2e/test_examples.py"
    for page in PAGES
    if page.is_relative_to(ROOT / "examples")
}

ALL = [block for page in PAGES for block in blocks(page.relative_to(ROOT).as_posix())]
SHELL = [block for block in ALL if block.language == "sh"]
REQUESTS = [
    block for block in ALL if block.language == "json" and '"jsonrpc"' in block.code and '"method"' in block.code
]
MAKE = sorted({target for block in SHELL for target in re.findall(r"^make ([a-z-]+)", block.code, re.MULTILINE)})


def place(block: Block) -> str:
    return f"{block.page}:{block.line}"


def runs(block: Block) -> bool:
    """Return True if a test runs or checks the block. Output is checked with its command, YAML by the test below."""
    if block.page in SCRIPTS and (block.title or block.language == "sh"):
        return True
    return block.language in ("text", "yaml") or (block.page, block.language) in RUN_BY


def test_each_code_block_of_docs_is_tested_or_needs_aws() -> None:
    left = [f"{place(block)} {block.language}" for block in ALL if not runs(block) and not block.needs]
    assert left == [], f"{len(left)} blocks are neither run nor marked with `Needs AWS.`"


def test_test_files_listed_for_code_blocks_of_docs_exist() -> None:
    used = {(block.page, block.language) for block in ALL}
    assert [entry for entry in RUN_BY if entry[0].startswith("docs/") and entry not in used] == []
    assert [test for test in set(RUN_BY.values()) if not (ROOT / test).is_file()] == []


@each_row("block", [block for block in ALL if block.language == "yaml"])
def test_yaml_blocks_are_valid(block: Block, tmp_path: Path) -> None:
    document = parsed(block.code)
    assert document
    if isinstance(document, dict) and "aion" in document:
        (tmp_path / "aion.yaml").write_text(block.code, encoding="utf-8")
        assert read_deployment_config(tmp_path / "aion.yaml").agents


def test_shell_blocks_have_valid_syntax() -> None:
    for block in SHELL:
        checked = subprocess.run(["bash", "-n"], input=block.code, capture_output=True, text=True)
        assert checked.returncode == 0, f"{place(block)}: {checked.stderr}"


def test_python_blocks_have_valid_syntax() -> None:
    for block in ALL:
        if block.language == "python":
            compile(block.code, place(block), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("block", REQUESTS, ids=place)
async def test_json_rpc_requests_in_docs_return_results(block: Block) -> None:
    request = json.loads(block.code)
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(ROOT / "aion.yaml")}
    async with http(build_app(Settings.from_environ(environ))) as client:
        if context := request["params"].get("contextId"):
            await client.post("/", json=send(contextId=context))
        answer = (await client.post("/", json=request)).json()
    assert "result" in answer, answer


def test_make_commands_shown_in_docs_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {"test", "dev", "quick"} <= set(MAKE)
    assert [target for target in MAKE if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


AWS = re.compile(r"^(?:uv run )?aion (?:deploy|destroy|.*--stack)\b|^(?:aws|sam deploy|sam package) ")


def test_commands_in_docs_that_need_aws_say_so() -> None:
    """Look for the words `needs AWS` at the block, or in the line of the command."""
    left = [
        f"{place(block)} {line}"
        for block in SHELL
        for line in block.code.splitlines()
        if AWS.match(line) and block.needs != "AWS" and "needs AWS" not in line
    ]
    assert left == []
