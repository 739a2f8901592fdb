"""Times of a write: whole milliseconds, and the second in which an item expires."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from aion_core.table.times import Times, milliseconds, moment
from tests.support.clock import ManualClock
from tests.support.rows import each_row


def moments() -> Iterator[int]:
    """Yield milliseconds since 1970: some of each year to 2106, with all kinds of fractions of a second."""
    for year in range(1971, 2107):
        begin = round(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1000
        yield from range(begin, begin + 10_000, 97)


def test_each_millisecond_is_read_as_it_was_written() -> None:
    assert [at for at in moments() if milliseconds(moment(at)) != at] == []


@each_row(("microseconds", "expected"), [(-1, -1), (0, 0), (1, 0), (999, 0), (1000, 1), (1001, 1)])
def test_part_of_millisecond_is_rounded_down(microseconds: int, expected: int) -> None:
    assert milliseconds(moment(0) + timedelta(microseconds=microseconds)) == expected
    assert (
        milliseconds(moment(4_000_000_000_000) + timedelta(microseconds=microseconds)) == 4_000_000_000_000 + expected
    )


@each_row("late", [0, 1, 500, 999])
def test_item_expires_retention_after_second_of_its_write(late: int) -> None:
    times = Times.read(ManualClock(at=moment(4_000_000_000_000 + late)), 1.5, timedelta(minutes=1))
    assert (times.lease_until, times.seconds, times.expires) == (times.now + 1500, 4_000_000_000, 4_000_000_060)
