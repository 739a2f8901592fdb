"""`make quick`: selection of the test files that belong to the changed source files."""

from pathlib import Path

import pytest

from scripts.nearest import MOST, nearest

FILES = {
    "tests/runtime/unit/engine/runner/test_runner.py": "from aion_core.tasks.runner import TaskRunner\n",
    "tests/unit/tasks/test_other.py": "from aion_core.tasks import fences\nfrom tests.support.clock import ManualClock\n",
    "tests/runtime/unit/web/test_rest.py": "",
    "tests/tools/e2e/test_dev.py": "from aion_core.tasks.runner import TaskRunner\nfrom aion_core.tasks import fences\n",
    "tests/repository/architecture/test_lint.py": "",
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
        (["aion_core/tasks/runner.py"], ["tests/runtime/unit/engine/runner/test_runner.py"]),
        (["aion_core/tasks/fences.py"], ["tests/unit/tasks/test_other.py"]),
        (["aion_core/web/unnamed.py"], ["tests/runtime/unit/web/test_rest.py"]),
        (["tests/support/clock.py"], ["tests/unit/tasks/test_other.py"]),
        (
            ["tests/runtime/unit/web/test_rest.py", "tests/unit/web/test_gone.py"],
            ["tests/runtime/unit/web/test_rest.py"],
        ),
        (["README.md", "tests/repository/architecture/test_lint.py"], []),
    ],
)
def test_changed_file_selects_its_nearest_tests(tree: Path, changed: list[str], tests: list[str]) -> None:
    assert nearest(changed, tree) == (tests, [])


@pytest.mark.parametrize("changed", ["tests/tools/e2e/test_dev.py", "tests/e2e/conftest.py"])
def test_make_quick_skips_slow_tests(tree: Path, changed: str) -> None:
    assert nearest([changed], tree) == ([], ["tests/tools/e2e/test_dev.py"])


def test_limited_test_selection_keeps_tests_named_after_changed_modules(tree: Path) -> None:
    below = tree / "tests" / "contract"
    below.mkdir()
    for number in range(2 * MOST):
        (below / f"test_{number}.py").write_text("from aion_core.tasks import fences\n")
    chosen, left = nearest(["aion_core/tasks/fences.py", "aion_core/tasks/runner.py"], tree)
    assert "tests/runtime/unit/engine/runner/test_runner.py" in chosen
    assert (len(chosen), len(left)) == (MOST, 2 * MOST + 2 - MOST)
