"""Names of the test files nearest to the changes of the working tree: `make quick` runs them.

The nearest test of `aion_core/tasks/runner.py` is `tests/runtime/unit/engine/runner/test_runner.py`. A module without such a file has
the tests that import it, and otherwise those of its package.
"""

import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SLOW = ("tests/e2e", "tests/simulation", "tests/bench")
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


def nearest(files: Collection[str], root: Path = ROOT) -> tuple[list[str], list[str]]:
    """Return the test files nearest to these files, and further test files that only `make test` runs."""
    tests = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in (root / "tests").rglob("test_*.py")
    }
    distances: dict[str, int] = {}
    for file in files:
        for distance, test in _tests_of(file, tests):
            distances[test] = min(distance, distances.get(test, distance))
    distances.pop(LINT, None)
    found = sorted(distances, key=lambda test: (distances[test], test))
    quick = [test for test in found if not test.startswith(SLOW)][:MOST]
    return sorted(quick), sorted({*found} - {*quick})


def _tests_of(file: str, tests: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Return test files with their distance: 0 for the file itself, 1 for its mirror, 2 for others."""
    path = Path(file)
    if file in tests:
        yield 0, file
    elif path.suffix == ".py" and path.parts[0] == "tests":
        # Choose the tests in the folder of a conftest. For other support code, choose the tests that import the code.
        beside = [test for test in tests if Path(test).parent == path.parent] if path.name == "conftest.py" else []
        yield from ((2, test) for test in beside or _importing(path, tests))
    elif path.suffix == ".py":
        below = Path("tests", "unit", *path.parts[1:-1])
        mirrored = str(below / f"test_{path.stem}.py")
        if mirrored in tests:
            yield 1, mirrored
        else:
            others = _importing(path, tests) or [test for test in tests if Path(test).parent == below]
            yield from ((2, test) for test in others)


def _importing(path: Path, tests: dict[str, str]) -> list[str]:
    package, name = ".".join(path.parts[:-1]), path.stem
    imports = re.compile(
        rf"^\s*(from {re.escape(package)}\.{name} |from {re.escape(package)} import .*\b{name}\b)", re.M
    )
    return [test for test in sorted(tests) if not test.startswith(SLOW) and imports.search(tests[test])]


if __name__ == "__main__":
    quick, left = nearest(changed())
    if left:
        print(f"Left to make test: {', '.join(left)}", file=sys.stderr)
    print(*quick)
