"""Event ids of a stream, from and to cursors."""

import pytest

from aion_core.engine.records import Cursor
from aion_core.engine.stream.event_ids import cursor_of, event_id
from tests.support.rows import each_row


@pytest.mark.parametrize(
    ("cursor", "id_"),
    [
        (Cursor(3), "3"),
        (Cursor(3, 2, 1), "3.2.0"),
        (Cursor(3, 2, 5), "3.2.4"),
    ],
)
def test_event_id_gives_cursor_after_its_item(cursor: Cursor, id_: str) -> None:
    assert event_id(cursor) == id_
    assert cursor_of(id_) == cursor


@each_row("id_", ["", "3.2", "3.2.1.0", "-1", "3.x.1", "\u0663", "9" * 12])
def test_foreign_event_id_has_no_cursor(id_: str) -> None:
    assert cursor_of(id_) is None
