"""Names of the test files nearest to the changes of the working tree: `make quick` runs them.

The nearest test of `aion_core/engine/runner/worker.py` is its mirror, `tests/runtime/unit/engine/runner/test_worker.py`, or the test
that `tests/mirrors.toml` names instead. If this test is slow, its tests are those of the mirror's folder or, if the folder has none, of
the next folder above. The tests of support code are those that import it.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
MIRRORS = {
    "aion": "tests/runtime/unit/authoring",
    "aion_core": "tests/runtime/unit",
    "aion_tools": "tests/tools/unit",
    "handlers": "tests/runtime/unit/bootstrap",
    "scripts": "tests/repository",
}
"""Folder with the tests of each source folder. Its subfolders mirror those of the source."""
SLOW = ("tests/runtime/e2e/", "tests/tools/e2e/", "tests/simulation/", "tests/repository/bench/")
"""Folders left to `make test`: one of their files may take a minute."""
LINT = "tests/repository/architecture/test_lint.py"
"""`make quick` runs `make lint-code` itself."""
MOST = 12
"""Maximum number of test files, about half a minute. Changed tests come first, then those that mirror a module."""


def changed() -> list[str]:
    """Return the files that differ from the commit at which this branch left `main`, and those not yet added."""
    base = _git("merge-base", "main", "HEAD") or ["HEAD"]
    return sorted({*_git("diff", "--name-only", base[0]), *_git("ls-files", "--others", "--exclude-standard")})


def _git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()  # noqa: S603, S607


def named_tests(root: Path = ROOT) -> dict[str, str]:
    """Return the test file of each source file without a mirror, as `tests/mirrors.toml` names it."""
    file = root / "tests" / "mirrors.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def mirror_of(source: str) -> str:
    """Return the path of the test file that mirrors a source file. It may not exist."""
    path = Path(source)
    return Path(MIRRORS[path.parts[0]], *path.parts[1:-1], f"test_{path.stem}.py").as_posix()


class QuickTests:
    """The test files of a checkout, and their imports."""

    def __init__(self, root: Path = ROOT) -> None:
        self._texts: Mapping[str, str] = {
            path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted((root / "tests").rglob("test_*.py"))
        }
        self._named = named_tests(root)

    @cached_property
    def _quick(self) -> list[str]:
        return [test for test in self._texts if not test.startswith(SLOW) and test != LINT]

    def nearest(self, files: Collection[str]) -> tuple[list[str], list[str]]:
        """Return the test files nearest to these files, and further test files that only `make test` runs."""
        distances: dict[str, int] = {}
        for file in files:
            for distance, test in self._tests_of(file):
                distances[test] = min(distance, distances.get(test, distance))
        distances.pop(LINT, None)
        found = sorted(distances, key=lambda test: (distances[test], test))
        quick = [test for test in found if not test.startswith(SLOW)][:MOST]
        return sorted(quick), sorted({*found} - {*quick})

    def _tests_of(self, file: str) -> Iterator[tuple[int, str]]:
        """Yield test files with their distance: 0 for the file itself, 1 for its mirror, more for others."""
        path = Path(file)
        if file in self._texts:
            yield 0, file
        elif path.suffix != ".py":
            return
        elif path.parts[0] == "tests":
            # Choose the tests in the folder of a conftest. For other support code, choose the tests that import the code.
            beside = [test for test in self._texts if Path(test).parent == path.parent]
            found = (beside if path.name == "conftest.py" else []) or self._importing(path)
            yield from ((2, test) for test in found)
        elif path.parts[0] in MIRRORS:
            named = self._named.get(file, mirror_of(file))
            if named in self._texts:
                yield 1, named
            if named not in self._quick:
                yield from ((2, test) for test in self._of_folder(Path(mirror_of(file)).parent))

    def _importing(self, path: Path) -> list[str]:
        """Return the tests that import a module of `tests`."""
        *package, name = path.with_suffix("").parts
        parent = re.escape(".".join(package))
        imports = re.compile(rf"(from|import) {parent}\.{name}\b|from {parent} import .*\b{name}\b")
        return [test for test in self._quick if imports.search(self._texts[test])]

    def _of_folder(self, folder: Path) -> list[str]:
        """Return the tests in the folder or, without any, below it; else those of the next folder above."""
        for each in (folder, *folder.parents):
            directly = [test for test in self._quick if Path(test).parent == each]
            if found := directly or [test for test in self._quick if Path(test).is_relative_to(each)]:
                return found
        return []


if __name__ == "__main__":
    quick, left = QuickTests().nearest(changed())
    if left:
        print(f"Left to make test: {', '.join(left)}", file=sys.stderr)
    print(*quick)
