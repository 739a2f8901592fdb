"""docs/observability.md: its log messages and metrics are those of the code."""

import re
from pathlib import Path

from aion_core.telemetry import Metric

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "observability.md").read_text()
POWERTOOLS = "Record processing exception; skipping this record"


def rows(headline: str) -> list[list[str]]:
    """Return the cells of a table, without its header row."""
    table = GUIDE[GUIDE.index(headline) :].split("\n\n")[0]
    return [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in table.splitlines()[2:]]


def test_observability_guide_lists_each_metric_with_its_unit() -> None:
    told = {row[0].strip("`"): row[1] for row in rows("| metric |")}
    emitted = {metric.value: "ms" if metric.in_milliseconds else "count" for metric in Metric}
    assert told == emitted, "Correct the table of metrics in docs/observability.md."


def test_log_messages_quoted_in_observability_guide_exist() -> None:
    code = "".join(path.read_text() for folder in ("aion_core", "handlers") for path in (ROOT / folder).rglob("*.py"))
    messages = [message for row in rows("| message |") for message in re.findall(r"`([^`]+)`", row[0])]
    assert len(messages) > 15
    for message in messages:
        # Search the code for the text after `internal:`, because the code adds this prefix at run time.
        said = f'"{message.partition(":")[2]}' if message.startswith("internal:") else message
        assert said in code or message == POWERTOOLS, message
    assert "internal:%s" in code
