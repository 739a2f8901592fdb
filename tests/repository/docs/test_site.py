"""Documentation site: built without warnings, with all pages and without requests to other origins."""

import posixpath
import re
from pathlib import Path

import pytest
import yaml

from scripts.docs_site import CONFIG, build, expanded_navigation, pages_of, source_files, tabbed
from scripts.reference.pages import PAGES
from tests.support.server import ROOT

LOADED = re.compile(r'<(?:script|link|img)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]*)"')
LOADED_BY_CSS = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')]*)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = build(folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.deep
def test_docs_site_has_html_page_for_each_markdown_file(site: Path) -> None:
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "decisions").glob("0*.md")]
    for page in pages:
        place = page.relative_to(ROOT).with_suffix(".html")
        assert (site / ("index.html" if place.match("docs/index.html") else place)).exists()
    assert "Kill it in the middle of a word" in (site / "index.html").read_text(encoding="utf-8")
    assert (site / "search.json").stat().st_size > 100_000


def test_site_navigation_lists_each_page_once() -> None:
    """The decision records are listed by their index instead, and docs/index.md is the first page."""
    listed = list(pages_of(expanded_navigation(yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["nav"], ROOT)))
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*/README.md")]
    names = ["index.md", *(page.relative_to(ROOT).as_posix() for page in pages if page.name != "index.md")]
    assert {name: listed.count(name) for name in names} == dict.fromkeys(names, 1)
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md", "docs/decisions/README.md"} <= set(
        listed
    )


def test_examples_in_several_languages_become_tabs() -> None:
    page = tabbed((ROOT / "docs" / "clients.md").read_text(encoding="utf-8"))
    for label in ("curl, 1.0", "curl, 0.3", "Python", "TypeScript"):
        assert page.count(f'\n=== "{label}"\n') > 5, label
    assert tabbed("Python:\n\n```python\na\n\nb\n```\n\nText.\n\nGo:\n\n```go\nc\n```\n").count("===") == 0
    assert tabbed("Python:\n\n```python\na\n\nb\n```\n\nGo:\n\n```go\nc\n```\n\nText.\n") == (
        '=== "Python"\n\n    ```python\n    a\n\n    b\n    ```\n\n=== "Go"\n\n    ```go\n    c\n    ```\n\nText.\n'
    )


def test_decision_index_lists_each_record() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8").splitlines()
    for record in sorted((ROOT / "docs" / "decisions").glob("0*.md")):
        title = record.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        row = f"| [{record.name[:4]}]({record.name}) | {title} |"
        assert row in index, f"Add this row to docs/decisions/README.md: {row}"


def anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_broken(link: str, page: Path) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if posixpath.relpath(target, ROOT) in PAGES:
        return False
    return not target.exists() or bool(anchor and target.suffix == ".md" and anchor not in anchors(target))


def test_links_of_pages_have_targets() -> None:
    broken = {
        f"{name}: {link}"
        for name in source_files()
        if name.endswith(".md")
        for link in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", (ROOT / name).read_text(encoding="utf-8"))
        if is_broken(link, ROOT / name)
    }
    assert broken == set()


@pytest.mark.deep
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
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Start\n\n[Gone](gone.md)\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[project.urls]\n", encoding="utf-8")
    monkeypatch.setattr("scripts.docs_site.ROOT", tmp_path)
    monkeypatch.setattr("scripts.docs_site.source_files", lambda: ["docs/index.md"])
    built = build(tmp_path / "built" / "site")
    assert built.returncode == 1
    assert "page does not exist" in built.stdout + built.stderr
