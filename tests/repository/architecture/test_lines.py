"""`make lines`: lines per package, and long files."""

from pathlib import Path

from scripts.lines import LONG, report


def test_lines_are_counted_by_package_without_tests_among_long_files() -> None:
    texts = {
        Path("aion_core/errors.py"): "one\n",
        Path("aion_core/web/rpc.py"): "line\n" * (LONG + 1),
        Path("aion_core/web/operations/tasks.py"): "line\n" * LONG,
        Path("tests/runtime/unit/web/test_rpc.py"): "line\n" * 1000,
    }
    assert list(report(texts)) == [
        "    502 aion_core",
        "        501 aion_core/web (2 files)",
        "          1 aion_core (1 files)",
        "  1,000 tests",
        f"1 of 3 source files have more than {LONG} lines:",
        "    251 aion_core/web/rpc.py",
    ]
