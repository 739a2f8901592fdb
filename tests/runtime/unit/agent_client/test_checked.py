"""Errors of unusable answers, and the size of what is kept of one answer."""

import pytest
from google.protobuf.json_format import ParseError

from aion_core.agent_client.bounded import UnusableAnswer
from aion_core.agent_client.checked import MAX_KEPT_BYTES, Kept, usable


@pytest.mark.parametrize("error", [ParseError, ValueError, TypeError, KeyError, AttributeError, RecursionError])
def test_error_of_unusable_answer_has_one_kind(error: type[Exception]) -> None:
    with pytest.raises(UnusableAnswer), usable():
        raise error("x")


def test_all_that_is_kept_has_one_limit() -> None:
    kept = Kept()
    for _ in range(100):
        kept.put("a", MAX_KEPT_BYTES // 4)  # the same artifact, again and again
    kept.put("a", MAX_KEPT_BYTES // 4, append=True)
    kept.put("b", MAX_KEPT_BYTES // 4)
    with pytest.raises(UnusableAnswer, match=r"It is larger than 32 MB in all\."):
        kept.put("a", MAX_KEPT_BYTES // 4, append=True)


def test_many_small_parts_are_counted() -> None:
    with pytest.raises(UnusableAnswer):
        Kept().put("a", 0, parts=MAX_KEPT_BYTES // 256)
