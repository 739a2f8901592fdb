"""Page tokens of lists: a token is refused if it was changed, or comes from another list."""

import base64
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aion_core.engine.listing import page_tokens
from aion_core.engine.listing.task_list import ListCursor, TaskFilter
from aion_core.errors import InvalidMessage
from aion_core.protocol.types import TaskState
from tests.support.rows import each_row

SECRET = bytes(range(32))
NOW = datetime(2026, 5, 4, 3, 2, 1, 123000, tzinfo=UTC)
TASKS = TaskFilter("owner", "agent")
PLACE = ListCursor(NOW, "0196a1b2-c3d4-7000-8000-0123456789ab")

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64)
times = st.datetimes(timezones=st.just(UTC))


@given(times, ids, st.binary(min_size=16, max_size=64))
def test_list_cursor_is_unchanged_after_conversion_to_page_token(at: datetime, task_id: str, secret: bytes) -> None:
    token = page_tokens.make(secret, TASKS, ListCursor(at, task_id))
    assert page_tokens.read(secret, TASKS, token) == ListCursor(at, task_id)
    assert token.isascii()
    assert token.replace("-", "").replace("_", "").isalnum(), "it can stand in a URL as it is"


def test_longest_page_token_is_within_size_limit() -> None:
    token = page_tokens.make(SECRET, TASKS, ListCursor(NOW, "x" * 128))
    assert len(token) < page_tokens.MAX_CHARACTERS / 1.5
    assert page_tokens.read(SECRET, TASKS, token) == ListCursor(NOW, "x" * 128)


def refused(token: str, tasks: TaskFilter = TASKS, secret: bytes = SECRET) -> str:
    with pytest.raises(InvalidMessage) as raised:
        page_tokens.read(secret, tasks, token)
    assert raised.value.field == "pageToken"
    assert "leave it out" in str(raised.value), "the error has a remedy"
    return str(raised.value)


def test_page_token_with_any_flipped_bit_is_refused() -> None:
    token = page_tokens.make(SECRET, TASKS, PLACE)
    for position, character in enumerate(token):
        for bit in range(7):
            flipped = chr(ord(character) ^ 1 << bit)
            refused(token[:position] + flipped + token[position + 1 :])


def test_page_token_of_wrong_length_is_refused() -> None:
    token = page_tokens.make(SECRET, TASKS, PLACE)
    for end in range(len(token)):
        refused(token[:end])
        refused(token[end + 1 :])
    for more in ("=", "==", "A", "AAAA", " ", "\n", "é", "\0", token):
        refused(token + more)
        refused(more + token)


@given(st.text(max_size=200) | st.binary(max_size=150).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_arbitrary_text_as_page_token_is_refused(token: str) -> None:
    refused(token)


def test_huge_page_token_is_refused() -> None:
    refused("A" * 5_000_000)


def test_page_token_of_another_deployment_is_refused() -> None:
    refused(page_tokens.make(bytes(32), TASKS, PLACE))


def test_page_token_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_tokens, "VERSION", 2)
    token = page_tokens.make(SECRET, TASKS, PLACE)
    monkeypatch.undo()
    refused(token)


@each_row(
    "other",
    [
        replace(TASKS, owner="another"),
        replace(TASKS, agent="another"),
        replace(TASKS, owner="owner#agent", agent=""),
        replace(TASKS, owner='owner", "agent', agent=""),
        replace(TASKS, context_id="c"),
        replace(TASKS, context_id=""),
        replace(TASKS, state=TaskState.TASK_STATE_WORKING),
        replace(TASKS, since=NOW),
    ],
)
def test_page_token_of_another_list_is_refused(other: TaskFilter) -> None:
    assert "another list" in refused(page_tokens.make(SECRET, TASKS, PLACE), other)
    refused(page_tokens.make(SECRET, other, PLACE))


def test_page_token_ignores_time_zone_of_filter() -> None:
    token = page_tokens.make(SECRET, replace(TASKS, since=NOW), PLACE)
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5)))
    assert page_tokens.read(SECRET, replace(TASKS, since=elsewhere), token) == PLACE
