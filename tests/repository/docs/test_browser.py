"""docs/browser.md: its configuration, and its lists of headers. tests/runtime/e2e/test_browser.py runs its scripts."""

import re
from pathlib import Path

from aion_core.loading.deployment import read_deployment_config
from aion_core.web.middleware.cors import EXPOSED_HEADERS, REQUEST_HEADERS

GUIDE = (Path(__file__).parents[3] / "docs" / "browser.md").read_text(encoding="utf-8")


def headers_after(start: str) -> set[str]:
    paragraph = GUIDE[GUIDE.index(start) :].partition("\n\n")[0]
    return set(re.findall(r"`([A-Za-z0-9-]+)`", paragraph))


def test_configuration_in_browser_guide_is_valid(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    (tmp_path / "aion.yaml").write_text(block, encoding="utf-8")
    cors = read_deployment_config(tmp_path / "aion.yaml").agents["helper"].cors
    assert cors is not None
    assert (cors.origins, cors.headers, cors.max_age) == (["https://app.example.com"], [], 600)


def test_browser_guide_lists_all_cors_headers() -> None:
    assert headers_after("Scripts may read") == set(EXPOSED_HEADERS)
    assert headers_after("Scripts may send") == set(REQUEST_HEADERS)
