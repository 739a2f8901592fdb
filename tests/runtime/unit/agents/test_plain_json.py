"""JSON of values that A2A carries."""

import dataclasses
import datetime
import enum
from contextlib import nullcontext
from typing import Any

import pytest
from pydantic import BaseModel, Field

from aion_core.agents.plain_json import MAX_LEVELS, json_part, plain_json
from aion_core.errors import AgentFailed
from aion_core.protocol.types import Message
from tests.support.rows import each_row


class Colour(enum.Enum):
    RED = "red"


class Blob(BaseModel):
    content: bytes = b"\xff\xfe"
    score: float = float("nan")
    label: str = Field(default="n", serialization_alias="Label")


@dataclasses.dataclass
class Pair:
    left: Any
    right: Any


class Numbers:
    """Object with the interface of a numpy array."""

    def tolist(self) -> list[int]:
        return [1, 2]


@each_row(
    ("value", "expected"),
    [
        ({"score": float("nan"), "most": float("inf"), "some": 1.5}, {"score": None, "most": None, "some": 1.5}),
        (Blob(), {"content": "__4=", "score": None, "label": "n"}),
        ([{"held": Blob()}], [{"held": {"content": "__4=", "score": None, "label": "n"}}]),
        (Pair(Colour.RED, {1}), {"left": "red", "right": [1]}),
        (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "2026-01-02T00:00:00Z"),
        ({(1, 2): "x\ud800"}, {"1,2": "x?"}),
        (Numbers(), [1, 2]),
        (Message(message_id="m-1"), {"messageId": "m-1"}),
        (ValueError("no"), "no"),
    ],
)
def test_python_value_is_converted_to_plain_json(value: Any, expected: Any) -> None:
    assert plain_json(value) == expected


def test_data_containing_itself_is_refused() -> None:
    circle: dict[str, Any] = {}
    circle["next"] = circle
    with pytest.raises(AgentFailed, match="the value of `ring` contains itself"):
        json_part({"flat": 1, "ring": circle})


@pytest.mark.parametrize("levels", [MAX_LEVELS, MAX_LEVELS + 1])
def test_too_deeply_nested_data_is_refused(levels: int) -> None:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    with pytest.raises(AgentFailed, match="a value has more") if levels > MAX_LEVELS else nullcontext():
        assert json_part(value).data.HasField("list_value")
