"""Reference pages of the documentation site. `make docs` writes them beside the copied pages; the repository lacks them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.reference.command_line import commands_page
from scripts.reference.python_api import python_page

PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/python.md": python_page,
    "docs/reference/commands.md": commands_page,
}


def write(source: Path) -> None:
    """Write all reference pages into the site's source folder."""
    for name, page in PAGES.items():
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(), encoding="utf-8")
