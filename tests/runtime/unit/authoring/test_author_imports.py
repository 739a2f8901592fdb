"""Imports in an author's code: defining modules, imported modules, and other distributions named `aion.…`."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

from tests.support.rows import each_row

ROOT = Path(__file__).parents[4]
SURFACE = ["aion.adk", "aion.langgraph", "aion.langgraph.stream", "aion.shared.types"]


def run(program: str, *path: Path) -> str:
    """Run the program in a separate process, with these folders first on its path."""
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(map(str, path))}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environ)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_graph_imports_no_server_or_other_framework() -> None:
    """Import the modules for authors: they add no module of starlette to those that the SDK's types import."""
    never = {
        "fastapi",
        "boto3",
        "botocore",
        "google.adk",
        "a2a.server",
        "a2a.client",
        "a2a.compat",
        "uvicorn",
        "mangum",
    }
    never |= {"langgraph", "langchain_core", "httpx", "aion_core.table", "aion_core.engine", "aion_core.bootstrap"}
    program = (
        "import sys, a2a.types\n"
        "web = {name for name in sys.modules if name.startswith('starlette')}\n"
        f"import {', '.join(SURFACE)}\n"
        "from aion_core.authoring.types import outbox_of\n"
        "outbox_of({'kind': 'message', 'role': 'agent', 'parts': [{'kind': 'text', 'text': 'hi'}]})\n"
        f"print(*[name for name in {sorted(never)!r} if name in sys.modules])\n"
        "print(*[name for name in sys.modules if name.startswith('starlette') and name not in web])\n"
    )
    assert run(program).split() == []


@each_row("module", SURFACE)
def test_names_exported_for_authors_are_defined_in_aion_core(module: str) -> None:
    """Checkpoints name a class by the module that defines it, so this module must stay the same."""
    exported = importlib.import_module(module)
    assert exported.__all__ == sorted(exported.__all__)
    for name in exported.__all__:
        assert getattr(exported, name).__module__.startswith("aion_core.authoring."), name


def test_aion_namespace_packages_only_reexport_names() -> None:
    """`aion` and `aion.shared` must have no `__init__.py`, and their other files only imports."""
    found = [path.relative_to(ROOT / "aion") for path in (ROOT / "aion").rglob("*") if path.is_file()]
    files = {str(path) for path in found if path.suffix != ".pyc"}
    assert files == {
        "adk/__init__.py",
        "adk/py.typed",
        "adk/scripted.py",
        "langgraph/__init__.py",
        "langgraph/py.typed",
        "langgraph/scripted.py",
        "langgraph/stream.py",
        "shared/py.typed",
        "shared/remote.py",
        "shared/sleeping.py",
        "shared/telemetry.py",
        "shared/types.py",
    }
    for path in (ROOT / "aion").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            assert isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.Expr), f"{path}:{node.lineno}"


def test_another_distribution_may_share_aion_namespace(tmp_path: Path) -> None:
    """The other distribution has `aion.other`, `aion.shared.other` and `aion.langgraph.other`. Its folder is before or
    after ours on the path."""
    for folder in ("other", "shared", "langgraph", "adk"):
        (tmp_path / "aion" / folder).mkdir(parents=True)
    (tmp_path / "aion/other/__init__.py").write_text("name = 'a package'")
    (tmp_path / "aion/shared/other.py").write_text("name = 'beside types'")
    (tmp_path / "aion/langgraph/other.py").write_text("name = 'beside stream'")
    (tmp_path / "aion/adk/other.py").write_text("name = 'beside the context'")
    program = (
        "import aion.other, aion.shared.other, aion.langgraph.other, aion.adk.other, aion.shared.types\n"
        "from aion.langgraph import AionContext\n"
        "names = [each.name for each in (aion.other, aion.shared.other, aion.langgraph.other, aion.adk.other)]\n"
        "print(*names, AionContext.__name__, sep=', ')"
    )
    said = "a package, beside types, beside stream, beside the context, AionContext\n"
    assert run(program, tmp_path, ROOT) == said
    assert run(program, ROOT, tmp_path) == said
