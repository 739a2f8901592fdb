"""Documentation site: built without warnings, with all pages and without requests to other origins."""

import re
from pathlib import Path

import pytest

from scripts.docs_site import build
from tests.support.server import ROOT

LOADED = re.compile(r'<(?:script|link|img)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]*)"')
LOADED_BY_CSS = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')]*)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = build(folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_docs_site_has_html_page_for_each_markdown_file(site: Path) -> None:
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "decisions").glob("0*.md")]
    for page in pages:
        assert (site / page.relative_to(ROOT).with_suffix(".html")).exists()
    assert "Your agent stays as it is" in (site / "index.html").read_text(encoding="utf-8")
    assert (site / "search.json").stat().st_size > 100_000


def test_site_navigation_lists_each_page_once(site: Path) -> None:
    listed = re.findall(r"[\w./-]+\.md$", (site.parent / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*/README.md")]
    names = [page.relative_to(ROOT).as_posix() for page in pages]
    assert {name: listed.count(name) for name in names} == dict.fromkeys(names, 1)
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "tests/README.md"} <= set(listed)


def test_decision_index_lists_each_record() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8").splitlines()
    for record in sorted((ROOT / "docs" / "decisions").glob("0*.md")):
        title = record.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        row = f"| [{record.name[:4]}]({record.name}) | {title} |"
        assert row in index, f"Add this row to docs/decisions/README.md: {row}"


def test_links_of_docs_site_have_targets(site: Path) -> None:
    missing = {
        f"{page.relative_to(site)}: {link}"
        for page in site.rglob("*.html")
        if page.name != "404.html"
        for link in re.findall(r'<a\b[^>]*\bhref="([^"#?:]+)(?:[#?][^"]*)?"', page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    }
    assert missing == set()


def test_site_loads_nothing_from_other_origins(site: Path) -> None:
    loaded = {
        address
        for pattern, names in ((LOADED, "*.html"), (LOADED_BY_CSS, "*.css"))
        for file in site.rglob(names)
        for address in pattern.findall(file.read_text(encoding="utf-8"))
    }
    assert loaded == set()


@pytest.mark.deep
def test_build_of_docs_site_fails_for_broken_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "README.md").write_text("# Start\n\n[Gone](docs/gone.md)\n", encoding="utf-8")
    monkeypatch.setattr("scripts.docs_site.ROOT", tmp_path)
    monkeypatch.setattr("scripts.docs_site._files", lambda: ["README.md"])
    built = build(tmp_path / "built" / "site")
    assert built.returncode == 1
    assert "page does not exist" in built.stdout + built.stderr
