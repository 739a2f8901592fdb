"""Imports of ADK, which import-linter cannot check: `google.adk` and `google.protobuf` share a top-level package."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
MAY = (
    "aion/adk/scripted.py",
    "aion_core/agents/adk/",
    # An agent without an API key: no other module of this library imports it.
    "aion_core/authoring/scripted_llm.py",
    "aion_tools/dev/console/",
    # `aion init` copies this agent into a new ADK project.
    "aion_tools/project/files/adk/",
    "aion_core/state/adk/",
)
"""Files that may import ADK; aion_core.bootstrap imports them when it loads an ADK agent."""


ADK = re.compile(r"^ *(?:(?:import|from) google\.(?:adk|genai)\b|from google import .*\b(?:adk|genai)\b)", re.MULTILINE)


def test_only_adk_adapters_import_google_adk() -> None:
    """Search the source for imports of ADK: only the files listed in MAY import it."""
    who = {
        str(file.relative_to(ROOT))
        for folder in ("aion_core", "aion_tools", "aion", "handlers", "scripts")
        for file in (ROOT / folder).rglob("*.py")
        if ADK.search(file.read_text(encoding="utf-8"))
    }
    assert any(name.startswith("aion_core/agents/adk/") for name in who)
    assert {name for name in who if not name.startswith(MAY)} == set()
