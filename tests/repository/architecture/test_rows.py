"""`each_row` fails for each failing row, as 300 tests would pass without it."""

import pytest

from tests.support.rows import each_row


def test_each_row_raises_error_of_every_failing_row() -> None:
    @each_row("letter", "ab")
    @each_row("number, expected", [(1, 1), (2, 1), (3, 3), (4, 1)])
    def compared(letter: str, number: int, expected: int) -> None:
        assert number == expected, f"{letter}{number}"

    with pytest.raises(BaseExceptionGroup) as raised:
        compared()  # type: ignore[call-arg]
    found = [error for group in raised.value.exceptions for error in group.exceptions]
    assert [str(error)[:2] for error in found] == ["a2", "a4", "b2", "b4"]
    assert found[0].__notes__ == ["Row: number=2, expected=1"]


async def test_each_row_raises_error_of_one_awaited_row() -> None:
    ran: list[int] = []

    @each_row("number", [1, 2, 3])
    async def failing(number: int, more: str) -> None:
        ran.append(number)
        if number == 2:
            pytest.fail(more)

    with pytest.raises(pytest.fail.Exception, match="of a fixture"):
        await failing(more="of a fixture")  # type: ignore[call-arg]
    assert ran == [1, 2, 3]
