"""Pages of the docs, run as a reader runs them: files are written, servers started and commands typed, in the page's order.

A text block below a shell block is its output. Blocks that say that they need AWS are not run.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.installed import wheel
from tests.support.pages import SCRIPTS, blocks, run, shown
from tests.support.server import ROOT

Environ = dict[str, str]


def _wheel(folder: Path) -> Environ:
    """Build the wheel, for pages that install it; a release is not on the index."""
    return {"UV_FIND_LINKS": str(wheel(folder / "dist").parent)}


def _examples(folder: Path) -> Environ:
    (folder / "examples").symlink_to(ROOT / "examples")
    return {}


PREPARED: dict[str, Callable[[Path], Environ]] = {"docs/quickstart.md": _wheel}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", SCRIPTS)
def test_pages_blocks_run_in_order(page: str, tmp_path: Path) -> None:
    prepare = PREPARED.get(page, _examples if page.startswith("examples/") else None)
    environ = prepare(tmp_path) if prepare else {}
    outputs = run(page, tmp_path, **environ)
    # The output of the commands since the last text block.
    since = ""
    for block in blocks(page):
        since += outputs[block.line]
        if block.language == "text":
            assert shown(block, since), f"{page}, line {block.line}: the block is not in this output:\n{since}"
            since = ""
