"""The list of files that one streamed message passes through (see tests/repository/bench/message_path.py)."""

import pytest

from aion_tools.stack.stack import LocalStack
from tests.repository.bench.message_path import MessagePath, dynamodb_environment, memory_environment, message_path


def check(path: MessagePath) -> None:
    assert path.files[0].startswith("aion_core/web/")
    assert path.before_write
    assert any(name.startswith("aion_core/agents/langgraph/") for name in path.files[path.before_write :])


async def test_message_path_on_memory_store_has_agent_after_first_write() -> None:
    check(await message_path(memory_environment()))


async def test_message_path_on_dynamodb_store_has_agent_after_first_write(
    moto: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = dynamodb_environment(moto)
    for name, value in environ.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    check(await message_path(environ))
