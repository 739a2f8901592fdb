"""Documentation site: `make docs` builds it with Zensical from docs/ and the pages of examples/.

Zensical reads a copy of these folders in their layout, so that a link works in the repository and on the site. Three things
differ in the copy: docs/index.md is the first page, in place of the README; blocks of one example in several languages are
tabs; and the generated reference is added. Files ignored by Git are not copied: they may hold secrets.
"""

import os
import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from scripts.reference import pages

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "mkdocs.yml"
SITE = ROOT / ".cache" / "docs" / "site"
THEME = Path(__file__).with_name("docs_theme")
SOURCES = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "examples", "tests/README.md", "aion.yaml"]
HOME = "docs/index.md"

_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s]+)")
_EXAMPLE = r"(?:(?:curl|Python|TypeScript|JavaScript|Go)(?:, [\d.]+)?|(?:LangGraph|ADK)\b[^\n]*):\n\n```.*?^```\n"
_EXAMPLES = re.compile(rf"^{_EXAMPLE}(?:\n{_EXAMPLE})+", re.MULTILINE | re.DOTALL)


def build(site: Path = SITE) -> subprocess.CompletedProcess[str]:
    """Build the site into a folder and return Zensical's finished process. Its exit code is 1 after any warning.

    The sources are copied into the folder `source` beside the site. Both folders are replaced if they exist.
    """
    source = site.parent / "source"
    for folder in (site, source):
        shutil.rmtree(folder, ignore_errors=True)
    files = source_files()
    for name in [*files, *_linked(files)]:
        target = source / _moved(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            target.write_text(_page(name), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / name, target)
    pages.write(source)
    config = site.parent / "mkdocs.yml"
    settings = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    settings |= {"docs_dir": source.name, "site_dir": site.name, "nav": expanded_navigation(settings["nav"], source)}
    settings["theme"]["custom_dir"] = str(THEME)
    if repository := _repository():
        settings["repo_url"] = repository
    config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", str(config)]
    return subprocess.run(command, capture_output=True, text=True)  # noqa: S603  # our own program


def source_files() -> list[str]:
    """Return the files of the repository that the site is built from, tracked or not, as paths from the root."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *SOURCES]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S603
    return [name for name in names.split("\0") if name and (ROOT / name).is_file()]


def _moved(name: str) -> str:
    return "index.md" if name in (HOME, "README.md") else name


def _page(name: str) -> str:
    """Return a page as the site has it: its links lead to the moved pages, and it has tabs."""
    folder = posixpath.dirname(name)

    def link(match: re.Match[str]) -> str:
        path, mark, anchor = match[1].partition("#")
        target = posixpath.normpath(posixpath.join(folder, path))
        if _moved(target) == target and name != HOME:
            return match[1]
        moved = posixpath.relpath(_moved(target), posixpath.dirname(_moved(name)) or ".")
        return moved if target == "README.md" else moved + mark + anchor

    return tabbed(_LINK.sub(link, (ROOT / name).read_text(encoding="utf-8")))


def tabbed(page: str) -> str:
    """Return a Markdown page with tabs in place of code blocks that follow one another, each below its language.

    A language is `Python:` or the like, a framework a line that begins with LangGraph or ADK, which stays in its tab.
    """
    return _EXAMPLES.sub(lambda examples: "\n".join(map(_tab, re.findall(_EXAMPLE, examples[0], re.M | re.S))), page)


def _tab(example: str) -> str:
    label, _, code = example.partition(":\n\n")
    framework = re.match(r"(LangGraph|ADK)\b", label)
    title, content = (framework[1], example) if framework else (label, code)
    return f'=== "{title}"\n\n' + "".join(f"    {line}" if line.strip() else line for line in content.splitlines(True))


def _repository() -> str:
    """Return the repository's URL from pyproject.toml, or from the GitHub workflow that builds the site; empty if unknown."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    if "Repository" in urls or "GITHUB_REPOSITORY" not in os.environ:
        return str(urls.get("Repository", ""))
    return f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"


def _linked(files: list[str]) -> set[str]:
    """Return the files outside of `files` to which a page in `files` links, such as a program in `tests/`."""
    found = set()
    for page in (ROOT / name for name in files if name.endswith(".md")):
        for link in re.findall(r"\]\(([^)#:\s]+)", page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            if target.is_file() and target.is_relative_to(ROOT):
                found.add(target.relative_to(ROOT).as_posix())
    return found - {*files, "README.md"}


def expanded_navigation(nav: list[Any], source: Path) -> list[Any]:
    """Return the navigation with each pattern (`docs/decisions/0*.md`) replaced by the matching pages.

    A pattern does not add pages that have their own entry. An entry without pages is removed.
    """
    return list(_pages(nav, source, set(pages_of(nav))))


def _pages(nav: list[Any], source: Path, named: set[str]) -> Iterator[Any]:
    for entry in nav:
        if isinstance(entry, str):
            found = [page for page in sorted(source.glob(entry)) if page.relative_to(source).as_posix() not in named]
            yield from ({_title(page): page.relative_to(source).as_posix()} for page in found)
            continue
        ((title, inner),) = entry.items()
        if pages := list(_pages(inner, source, named)) if isinstance(inner, list) else inner:
            yield {title: pages}


def pages_of(nav: list[Any]) -> Iterator[str]:
    """Yield the file of each page in a navigation without patterns."""
    for inner in (inner for entry in nav if isinstance(entry, dict) for inner in entry.values()):
        yield from pages_of(inner) if isinstance(inner, list) else [inner]


def _title(page: Path) -> str:
    heading = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return heading[1].replace("`", "") if heading else page.stem


def main() -> None:
    """Build the site, print the warnings and the address of its first page, and exit with the builder's code."""
    built = build()
    if built.returncode:
        sys.exit(built.stdout + built.stderr.partition("Traceback")[0])
    print(f"{SITE / 'index.html'}")


if __name__ == "__main__":
    main()
