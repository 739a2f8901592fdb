"""Number of files that one streamed message passes through (see tests/repository/bench/message_path.py)."""

import pytest

from aion_core.engine.runner import renewal
from aion_tools.stack.stack import LocalStack
from tests.repository.bench.message_path import (
    MAX_BEFORE_WRITE,
    MAX_STREAMED_TURN,
    MessagePath,
    dynamodb_environment,
    memory_environment,
    message_path,
)

DYNAMODB_FILES = 2
"""Additional files before a DynamoDB write: the conversion to DynamoDB's JSON, and the boto3 client."""


def check(path: MessagePath, *, most_before_write: int = MAX_BEFORE_WRITE) -> None:
    print(f"{path.before_write} files until the first write, {len(path.files)} in the streamed turn")
    assert path.files[0].startswith("aion_core/web/")
    assert path.before_write
    assert any(name.startswith("aion_core/agents/langgraph/") for name in path.files[path.before_write :])
    assert path.before_write <= most_before_write
    assert len(path.files) <= MAX_STREAMED_TURN


async def test_message_on_memory_store_executes_code_of_few_files() -> None:
    check(await message_path(memory_environment()))


@pytest.mark.parametrize("watch_seconds", [renewal.WATCH_SECONDS, 0.0], ids=["quick", "slow"])
async def test_message_on_dynamodb_store_executes_code_of_few_files(
    moto: LocalStack, monkeypatch: pytest.MonkeyPatch, watch_seconds: float
) -> None:
    # Without a pause the lease is checked during the turn, as in a slow turn. The checks are not the message's path.
    monkeypatch.setattr(renewal, "WATCH_SECONDS", watch_seconds)
    environ = dynamodb_environment(moto)
    for name, value in environ.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    check(await message_path(environ), most_before_write=MAX_BEFORE_WRITE + DYNAMODB_FILES)
