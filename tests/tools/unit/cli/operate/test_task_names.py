"""Names by which people call a task."""

import asyncio

import pytest

from aion_core.errors import ConfigurationError
from aion_tools.cli.operate.task_names import may_name, named
from tests.support import operating
from tests.support.conversation import StoreConversation
from tests.support.operating import RunCommand

COMMAND = ("tasks",)

OLD, NEW = "01a22a28-a75d-7309-837f-96b3e12c8836", "01a22a28-b000-7000-8000-96b3e1200000"


@pytest.mark.parametrize(
    ("name", "task_id"),
    [
        (OLD, OLD),
        ("01a22a28-a", OLD),
        ("e12c8836", OLD),
        ("0000", NEW),
        ("000", "000"),
        ("unknown", "unknown"),
    ],
)
def test_part_of_id_names_task(name: str, task_id: str) -> None:
    assert named(name, {each for each in (OLD, NEW) if may_name(name, each)}) == task_id


def test_id_that_begins_another_id_names_its_own_task() -> None:
    assert named("t-m-1", {"t-m-1", "t-m-12"}) == "t-m-1"


def test_name_of_several_tasks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="2 tasks have ids with '01a22a28', such as 01a22a28-b000-7000"):
        named("01a22a28", {OLD, NEW})


def test_commands_accept_part_of_id_and_last(run: RunCommand, chat: StoreConversation) -> None:
    async def two() -> None:
        await chat.ends(await chat.starts("message-1"))
        await chat.starts("message-2")

    asyncio.run(two())
    assert "t-message-1" in run("show", "ge-1", "--scan").stdout
    assert "t-message-2" in run("show", "last", "--scan").stdout
    shown = run("show", "ge-1", "--owner", chat.context.owner)
    assert "t-message-1" in shown.stdout
    assert "since the owner has no task with this whole id" in shown.stderr
    assert "no task ge-1 of this owner" in operating.refusal(run("show", "ge-1", "--owner", "another"))
    assert run("cancel", "ge-2", "--scan", "--yes").stdout == "Task t-message-2 is canceled.\n"
    assert "2 tasks have ids with 't-mes'" in operating.refusal(run("show", "t-mes", "--scan"))
