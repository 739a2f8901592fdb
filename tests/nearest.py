"""Names of the test files nearest to the changes of the working tree: `make quick` runs them.

The nearest test of `aion_core/tasks/runner.py` is `tests/unit/tasks/test_runner.py`. A module without such a file has
the tests that import it, and otherwise those of its package.
"""

import re
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SLOW = ("tests/e2e", "tests/simulation", "tests/bench")
"""Folders that only run if one of their own tests has changed."""
LINT = "tests/architecture/test_lint.py"
"""`make quick` runs `make lint` itself."""
MOST = 20
"""Files of tests for one module; what more of it imports is left to `make test`."""


def changed() -> list[str]:
    """Return the files that differ from the commit at which this branch left `main`, and those not yet added."""
    base = _git("merge-base", "main", "HEAD") or ["HEAD"]
    return sorted({*_git("diff", "--name-only", base[0]), *_git("ls-files", "--others", "--exclude-standard")})


def _git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()


def nearest(files: Collection[str], root: Path = ROOT) -> list[str]:
    """Return the test files that are nearest to these files; those that are gone have no tests."""
    tests = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in (root / "tests").rglob("test_*.py")
    }
    found: set[str] = set()
    for file in files:
        found.update(_tests_of(file, tests))
    return sorted(found - {LINT})


def _tests_of(file: str, tests: dict[str, str]) -> Iterator[str]:
    path = Path(file)
    if file in tests:
        yield file
    elif path.suffix == ".py" and path.parts[0] == "tests":
        # Support code: the tests that import it, or those beside a conftest.
        beside = [test for test in tests if Path(test).parent == path.parent] if path.name == "conftest.py" else []
        yield from beside or _importing(path, tests)
    elif path.suffix == ".py":
        below = Path("tests", "unit", *path.parts[1:-1])
        mirrored = str(below / f"test_{path.stem}.py")
        if mirrored in tests:
            yield mirrored
        else:
            yield from _importing(path, tests) or [test for test in tests if Path(test).parent == below]


def _importing(path: Path, tests: dict[str, str]) -> list[str]:
    package, name = ".".join(path.parts[:-1]), path.stem
    imports = re.compile(
        rf"^\s*(from {re.escape(package)}\.{name} |from {re.escape(package)} import .*\b{name}\b)", re.M
    )
    quick = [test for test in sorted(tests) if not test.startswith(SLOW)]
    return [test for test in quick if imports.search(tests[test])][:MOST]


if __name__ == "__main__":
    print(*nearest(changed()))
