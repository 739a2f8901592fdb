"""`make lines`: lines per package, long files, and section rulers."""

from pathlib import Path

import pytest

from scripts.lines import LONG, report, rulers_in

RULER = f"# ── Items {'─' * 40}"


@pytest.mark.parametrize(
    ("below", "reason"),
    [
        ("# The port has one subject, and its readers look for these names.\n", "The port has one subject"),
        ("\n# A comment of the code below.\n", ""),
        ("def item() -> None: ...\n", ""),
        (f"{RULER}\n", ""),
        ("", ""),
    ],
)
def test_reason_of_ruler_is_comment_line_below(below: str, reason: str) -> None:
    first, *_ = rulers_in(Path("aion_core/table/items.py"), f"import os\n\n    {RULER}\n{below}")
    assert (first.place, first.title) == ("aion_core/table/items.py:3", "Items")
    assert first.reason.startswith(reason)
    assert bool(first.reason) is bool(reason)
    assert ("NO REASON" in str(first)) is not bool(reason)


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
