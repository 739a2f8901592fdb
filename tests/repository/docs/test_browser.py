"""docs/browser.md: its configuration, and its lists of headers. tests/runtime/e2e/test_browser.py runs its scripts."""

import re
from pathlib import Path

from aion_core.web.middleware.cors import EXPOSED_HEADERS, REQUEST_HEADERS

GUIDE = (Path(__file__).parents[3] / "docs" / "browser.md").read_text(encoding="utf-8")


def headers_after(start: str) -> set[str]:
    paragraph = GUIDE[GUIDE.index(start) :].partition("\n\n")[0]
    return set(re.findall(r"`([A-Za-z0-9-]+)`", paragraph))


def test_browser_guide_lists_all_cors_headers() -> None:
    assert headers_after("Scripts may read") == set(EXPOSED_HEADERS)
    assert headers_after("Scripts may send") == set(REQUEST_HEADERS)
