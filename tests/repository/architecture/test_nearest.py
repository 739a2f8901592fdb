"""`make quick`: selection of the test files that belong to the changed source files."""

import subprocess
from pathlib import Path

import pytest

from scripts.nearest import LINT, MIRRORS, MOST, ROOT, SLOW, QuickTests

FILES = {
    "tests/mirrors.toml": '"aion_core/engine/fences.py" = "tests/runtime/unit/engine/test_other.py"\n',
    "tests/runtime/unit/engine/test_runner.py": "",
    "tests/runtime/unit/engine/test_other.py": "",
    "tests/runtime/unit/web/test_rest.py": "",
    "tests/runtime/unit/table/test_near.py": "from tests.support.clock import ManualClock\n",
    "tests/tools/e2e/test_dev.py": "",
    "tests/tools/unit/dev/test_worker.py": "",
    LINT: "",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        # The mirror, or the test that tests/mirrors.toml names.
        (["aion_core/engine/runner.py"], ["tests/runtime/unit/engine/test_runner.py"]),
        (["aion_core/engine/fences.py"], ["tests/runtime/unit/engine/test_other.py"]),
        # The tests of the mirror's folder, and of the folders above.
        (["aion_core/web/operations/tasks.py"], ["tests/runtime/unit/web/test_rest.py"]),
        (["aion_tools/dev/console/api.py"], ["tests/tools/unit/dev/test_worker.py"]),
        # Support code and tests.
        (["tests/support/clock.py"], ["tests/runtime/unit/table/test_near.py"]),
        (
            ["tests/runtime/unit/web/test_rest.py", "tests/runtime/unit/web/test_gone.py"],
            ["tests/runtime/unit/web/test_rest.py"],
        ),
        (["README.md", LINT], []),
    ],
)
def test_changed_file_selects_its_nearest_tests(tree: Path, changed: list[str], tests: list[str]) -> None:
    assert QuickTests(tree).nearest(changed) == (tests, [])


def test_make_quick_skips_slow_tests(tree: Path) -> None:
    assert QuickTests(tree).nearest(["tests/tools/e2e/test_dev.py"]) == ([], ["tests/tools/e2e/test_dev.py"])


def test_limited_test_selection_keeps_tests_named_after_changed_modules(tree: Path) -> None:
    for number in range(2 * MOST):
        (tree / "tests/runtime/unit/web" / f"test_{number}.py").write_text("")
    chosen, left = QuickTests(tree).nearest(["aion_core/web/unnamed.py", "aion_core/engine/runner.py"])
    assert "tests/runtime/unit/engine/test_runner.py" in chosen
    assert (len(chosen), len(left)) == (MOST, 2 * MOST + 2 - MOST)


def test_every_source_file_has_nearest_tests() -> None:
    tests = QuickTests()
    listed = subprocess.run(["git", "ls-files", *MIRRORS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    sources = [name for name in listed.splitlines() if name.endswith(".py") and (ROOT / name).is_file()]
    assert len(sources) > 300
    for source in sources:
        chosen, _ = tests.nearest([source])
        assert chosen, source
        assert not any(test.startswith(SLOW) for test in chosen)
