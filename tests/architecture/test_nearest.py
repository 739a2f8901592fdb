"""The selection of the nearest tests for `make quick`."""

from pathlib import Path

import pytest

from tests.nearest import nearest

FILES = {
    "tests/unit/tasks/test_runner.py": "from aion_core.tasks.runner import TaskRunner\n",
    "tests/unit/tasks/test_other.py": "from aion_core.tasks import fences\nfrom tests.support.clock import ManualClock\n",
    "tests/unit/web/test_rest.py": "",
    "tests/e2e/test_dev.py": "from aion_core.tasks.runner import TaskRunner\nfrom aion_core.tasks import fences\n",
    "tests/architecture/test_lint.py": "",
}


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        (["aion_core/tasks/runner.py"], ["tests/unit/tasks/test_runner.py"]),
        (["aion_core/tasks/fences.py"], ["tests/unit/tasks/test_other.py"]),
        (["aion_core/web/unnamed.py"], ["tests/unit/web/test_rest.py"]),
        (["tests/support/clock.py"], ["tests/unit/tasks/test_other.py"]),
        (["tests/e2e/test_dev.py", "tests/e2e/test_gone.py"], ["tests/e2e/test_dev.py"]),
        (["tests/e2e/conftest.py"], ["tests/e2e/test_dev.py"]),
        (["README.md", "tests/architecture/test_lint.py"], []),
    ],
)
def test_nearest_tests_of_changed_file(tmp_path: Path, changed: list[str], tests: list[str]) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert nearest(changed, tmp_path) == tests
