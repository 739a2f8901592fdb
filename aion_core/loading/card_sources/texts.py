"""Descriptions in docstrings and in pyproject.toml."""

import inspect
import logging
import re
import tomllib
from pathlib import Path

from aion_core.loading.agent_cards import TEMPLATES

logger = logging.getLogger(__name__)

MAX_TEXT = 500
"""Maximum number of characters of a description from a docstring."""


def first_paragraph(docstring: str | None) -> str:
    """Return the first paragraph of a docstring as one line; "" for a template's docstring."""
    paragraph = re.split(r"\n\s*\n", inspect.cleandoc(docstring or "").strip(), maxsplit=1)[0]
    line = " ".join(paragraph.split())
    if line in TEMPLATES:
        return ""
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 1].rpartition(' ')[0]}…"


def project_description(folder: Path) -> str:
    """Return the description under `[project]` in the folder's pyproject.toml; "" if there is none."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        return ""
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError) as error:
        logger.warning("%s cannot be read: %s", file, error)
        return ""
    text = project.get("description", "") if isinstance(project, dict) else ""
    return first_paragraph(text) if isinstance(text, str) else ""
