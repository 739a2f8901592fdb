"""Rules for the ids that clients choose."""

from aion_core.protocol.ids import MAX_ID_BYTES, is_id
from tests.support.rows import each_row


@each_row(
    "value", ["a", "_x", "-x", " ", "a b", "slack|C1|17", "<a@b>", "#1", "{1}", "é", "a\nb", "..", "x" * 512, "é" * 256]
)
def test_message_and_context_id_may_be_any_text(value: str) -> None:
    assert is_id(value)


@each_row("value", ["", "\0", "a\0b", "x" * (MAX_ID_BYTES + 1), "é" * 257])
def test_empty_nul_or_long_text_is_no_id(value: str) -> None:
    assert not is_id(value)
