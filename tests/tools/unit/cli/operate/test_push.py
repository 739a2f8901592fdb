"""`aion push` on the command line, in SQLite files and on an emulated stack."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from aion_core.errors import AionError
from aion_tools.stack.stack import LocalStack
from tests.support.operating import RunCommand, table
from tests.support.pushes import Pushes, a_config

COMMAND = ("push",)


@pytest.fixture
def push(push: Pushes) -> Pushes:
    """Task with three push configs: one delivered, one with dead letters, one disabled."""
    asyncio.run(three(push))
    return push


def task_id(push: Pushes) -> str:
    return f"t-{push.chat.context.owner}"


async def three(push: Pushes) -> None:
    new = push.chat.message("m-1", task_id=task_id(push))
    await push.chat.store.create(replace(new, push=a_config("well")), holder="holder-1")
    for config_id in ("dead", "gone"):
        await push.configs.put(new.key, a_config(config_id))
    until = push.clock.now() + timedelta(seconds=60)
    for delivery in await push.configs.deliveries(new.key):
        claim = await push.configs.claim(delivery, until=until)
        assert claim is not None
        match delivery.config_id:
            case "dead":
                buried = await push.configs.give_up(claim, cursor=3, failure="HTTP 503", until=until)
                await push.configs.settle(buried, cursor=4)
            case "gone":
                await push.configs.disable(claim, failure="HTTP 410\x1b")
            case _:
                await push.configs.settle(claim, cursor=2, delivered=True)


def test_push_list_without_results_prints_one_sentence(run: RunCommand) -> None:
    listed = run("list", "--owner", "nobody", "--agent", "echo")
    assert (listed.stdout, listed.stderr) == ("", "No push configs with failures.\n")
    assert run("list", "--owner", "nobody", "--agent", "echo", "--all").stderr == "No push configs.\n"


def test_push_list_shows_configs_with_failed_deliveries(run: RunCommand, push: Pushes) -> None:
    listed = [row for row in table(run("list")) if row[0] == task_id(push)]
    assert [row[1:] for row in sorted(listed)] == [
        ["dead", "dead letters: 1", "HTTP 503", push.chat.context.owner],
        ["gone", "disabled", "HTTP 410\\x1b", push.chat.context.owner],
    ]
    assert [task_id(push), "well", "ok", "-", push.chat.context.owner] in table(run("list", "--all"))


def test_push_list_prints_json(run: RunCommand, push: Pushes) -> None:
    listed = run("list", "--owner", push.chat.context.owner, "--agent", push.chat.context.agent, "--json")
    found = {each["config"]: each for each in json.loads(listed.stdout)}
    assert found.keys() == {"dead", "gone"}
    assert found["dead"] == {
        "task": task_id(push),
        "owner": push.chat.context.owner,
        "config": "dead",
        "state": "dead letters: 1",
        "createdAfter": 2,
        "deliveredThrough": 4,
        "attempts": 0,
        "nextAttempt": "with the next event",
        "failure": "HTTP 503",
        "deadLetters": 1,
        "deadFrom": 3,
        "disabled": False,
    }
    assert found["gone"]["disabled"] is True


def test_push_list_without_owner_selects_agent(run: RunCommand, push: Pushes) -> None:
    listed = run("list", "--agent", push.chat.context.agent)
    assert sorted(row[1] for row in table(listed) if row[0] == task_id(push)) == ["dead", "gone"]
    assert "Reading the whole table, since no owner is given" in listed.stderr
    other = run("list", "--agent", "other", "--all")
    assert (other.exit_code, other.stdout) == (0, "")


@pytest.mark.usefixtures("moto", "empty_table")
def test_push_list_of_owner_reads_tasks_concurrently(
    run: RunCommand, push: Pushes, hold_request: Callable[[str, int], None]
) -> None:
    second = push.chat.message("m-2", task_id=f"{task_id(push)}-2")
    asyncio.run(push.chat.store.create(replace(second, push=a_config("other")), holder=None))
    hold_request("dynamodb.Query", 2)  # after the query of the list
    listed = run("list", "--owner", push.chat.context.owner, "--agent", push.chat.context.agent, "--all")
    assert {row[1] for row in table(listed)} == {"dead", "gone", "well", "other"}


def test_push_show_prints_deliveries_without_secrets(run: RunCommand, push: Pushes) -> None:
    shown = run("show", task_id(push))
    assert shown.exit_code == 0
    assert "dead from          3\n" in shown.output
    tried = [line.split(maxsplit=2)[2] for line in shown.stdout.splitlines() if line.startswith("next attempt")]
    at_ease = "with the next event"
    assert tried == [at_ease, "only by `aion push redrive`", at_ease]
    assert "hidden" not in shown.output


def enqueued_for_pushes(moto: LocalStack) -> Iterator[str]:
    """Yield all messages of the queue, including those of other tests."""
    asked = {"QueueUrl": moto.physical_id("PushQueue"), "MaxNumberOfMessages": 10, "WaitTimeSeconds": 1}
    while messages := moto.client("sqs").receive_message(**asked).get("Messages"):
        yield from (message["Body"] for message in messages)


def test_push_redrive_resets_failed_deliveries_and_enqueues_them(
    run: RunCommand, push: Pushes, moto: LocalStack
) -> None:
    driven = run("redrive", task_id(push))
    assert driven.stdout.splitlines() == [
        "dead: redriven from event 3 on.",
        "gone: redriven from event 3 on.",
        "well: no dead letters.",
    ]
    found = {each.config_id: each for each in asyncio.run(push.configs.deliveries(push.key(task_id(push))))}
    assert (found["dead"].cursor, found["dead"].dead, found["gone"].disabled) == (2, 0, False)
    shown = run("show", task_id(push)).stdout
    times = re.findall(r"next attempt +(\d{4}-\d\d-\d\d \d\d:\d\d)", shown)
    assert len(times) == 2
    assert all(f"{push.clock.now():%Y-%m-%d %H:%M}" <= time <= f"{datetime.now(UTC):%Y-%m-%d %H:%M}" for time in times)
    assert sum(task_id(push) in body for body in enqueued_for_pushes(moto)) == 2


def test_push_delete_removes_configs_after_confirmation(run: RunCommand, push: Pushes) -> None:
    owner = ("--owner", push.chat.context.owner)

    def stored() -> list[str]:
        return [each.config_id for each in asyncio.run(push.configs.deliveries(push.key(task_id(push))))]

    assert run("delete", task_id(push), "gone", *owner, input="n\n").exit_code == 1
    assert stored() == ["dead", "gone", "well"]
    without_terminal = run("delete", task_id(push), "gone", *owner, input="")
    assert (without_terminal.exit_code, stored()) == (2, ["dead", "gone", "well"])
    assert "There is no terminal to ask for confirmation: give --yes." in without_terminal.stderr
    asked = run("delete", task_id(push), "gone", *owner, input="y\n")
    assert (asked.exit_code, asked.stdout) == (0, "gone: deleted.\n")
    assert f"Delete the push configs gone of the task {task_id(push)}?" in asked.stderr
    assert stored() == ["dead", "well"]
    assert run("delete", task_id(push), *owner, "--yes").stdout == "dead: deleted.\nwell: deleted.\n"
    assert stored() == []


def test_push_commands_accept_parts_of_ids_with_owner(run: RunCommand, push: Pushes) -> None:
    """A terminal shows only the ends of ids, and the whole owner."""
    owner, part = ("--owner", push.chat.context.owner), task_id(push)[-6:]
    shown = run("show", part, *owner)
    assert shown.stdout == run("show", task_id(push), *owner).stdout
    assert "since the owner has no task with this whole id" in shown.stderr
    assert run("redrive", part, "dead", *owner).stdout == "dead: redriven from event 3 on.\n"
    assert run("delete", part, "ell", *owner, "--yes").exit_code == 1
    assert run("delete", part, "gone", *owner, "--yes").stdout == "gone: deleted.\n"
    assert run("show", part, "--owner", "another").exit_code == 1


@pytest.mark.parametrize("arguments", [("show", "t-never"), ("redrive", "t-never"), ("delete", "t-never", "--yes")])
def test_unknown_task_is_refused(run: RunCommand, arguments: tuple[str, ...]) -> None:
    failed = run(*arguments)
    assert isinstance(failed.exception, AionError)
    assert "t-never" in str(failed.exception)


@pytest.mark.parametrize("command", ["redrive", "delete"])
def test_push_commands_refuse_unknown_config(run: RunCommand, push: Pushes, command: str) -> None:
    failed = run(command, task_id(push), "other")
    assert isinstance(failed.exception, AionError)
    assert "'other'" in str(failed.exception)
