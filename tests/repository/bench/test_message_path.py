"""The list of files that one streamed message passes through (see tests/repository/bench/message_path.py)."""

from tests.repository.bench.message_path import QUIET, message_path


async def test_message_path_has_agent_after_first_write() -> None:
    path = await message_path(QUIET)
    assert path.files[0].startswith("aion_core/web/")
    assert path.before_write
    assert any(name.startswith("aion_core/agents/langgraph/") for name in path.files[path.before_write :])
