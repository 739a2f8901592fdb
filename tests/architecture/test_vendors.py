"""Imports of vendors that import-linter cannot check: `google.adk` shares its first name with `google.protobuf`."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAY = (
    "aion_core/agents/adk/",
    # The agent that a new project gets.
    "aion_core/project/files/adk/",
    "aion_core/sessions/",
    "aion_core/stores/sessions.py",
    "aion_core/stores/artifacts.py",
)
"""Where ADK is known; the bootstrap imports these when an ADK agent is loaded."""


def imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_adk_stays_behind_its_adapter() -> None:
    """DESIGN, the house: vendors behind their adapter."""
    who = {
        str(file.relative_to(ROOT))
        for folder in ("aion_core", "aion", "handlers", "infra")
        for file in (ROOT / folder).rglob("*.py")
        if any(f"{name}.".startswith(("google.adk.", "google.genai.")) for name in imports(file))
    }
    assert any(name.startswith("aion_core/agents/adk/") for name in who)
    assert {name for name in who if not name.startswith(MAY)} == set()
