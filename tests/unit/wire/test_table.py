"""Each row of the table, in each version and binding that has its operation; no operation is without a row."""

import re
from dataclasses import replace
from typing import Any

import pytest

from aion_core.web.rpc import Dispatcher, V03Adapter
from tests.unit.wire.answers import VERSION, Error, check_refusal, gist
from tests.unit.wire.dialects import DIALECTS, RPC_V03, Dialect
from tests.unit.wire.served import Served
from tests.unit.wire.table import FAULTS, ROWS, Row

REFUSED = {
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
}
"""Operations that are only refused as yet."""

SPOKEN = DIALECTS


def as_param(dialect: Dialect, row: Row) -> Any:
    fault = FAULTS.get((dialect.name, row.name))
    marks = [pytest.mark.xfail(strict=True, reason=fault)] if fault else []
    return pytest.param(dialect, row, id=f"{dialect.name}, {row.name}", marks=marks)


SAID = [
    as_param(dialect, row)
    for dialect in SPOKEN
    for row in ROWS
    if dialect.name not in row.not_in and dialect.request(row.operation, row.params) is not None
]


async def filled(served: Served, params: Any) -> Any:
    """The params with the ids of tasks in the states that they name."""
    match params:
        case dict():
            return {name: await filled(served, value) for name, value in params.items()}
        case list():
            return [await filled(served, value) for value in params]
        case str() if found := re.fullmatch(r"<(c-)?(\w+)>", params):
            task = await served.prepare(found[2])
            return task["contextId" if found[1] else "id"]
    return params


@pytest.mark.parametrize(("dialect", "row"), SAID)
async def test_what_is_sent_gets_what_the_protocol_says(dialect: Dialect, row: Row) -> None:
    """R9-R18, R23-R25, R44, R45, R95, R98, R99."""
    served = Served(**row.where)
    params = await filled(served, row.params)
    sent = dialect.request(row.operation, params)
    assert sent is not None
    answer = await served.ask(dialect, sent)
    expected = row.but.get(dialect.name, row.gives)
    if isinstance(expected, Error):
        check_refusal(dialect, answer, expected)
    else:
        assert re.sub(r"(artifact )+", "artifact ", gist(row.operation, dialect, answer)) == expected
    await served.rest()


FIRST = {row.operation: row for row in reversed(ROWS) if isinstance(row.gives, str) or row.operation in REFUSED}
"""A row for each operation, one that succeeds where there is one."""


@pytest.mark.parametrize("operation", FIRST)
@pytest.mark.parametrize("dialect", SPOKEN, ids=lambda dialect: dialect.name)
async def test_the_version_is_stated_or_left_out(dialect: Dialect, operation: str) -> None:
    """D1: the method's name, or the path, says the version; a stated one must not contradict it."""
    row, served = FIRST[operation], Served()
    sent = dialect.request(operation, await filled(served, row.params))
    if sent is None:
        pytest.skip("there is no such operation in this version")
    other = "0.3" if dialect.version == "1.0" else "1.0"
    for contradicts in (other, "9.9", "1", "abc", "1.1"):
        check_refusal(dialect, await served.ask(dialect, sent, **{"a2a-version": contradicts}), VERSION)
        query = f"{sent.target}{'&' if '?' in sent.target else '?'}A2A-Version={contradicts}"
        check_refusal(dialect, await served.ask(dialect, replace(sent, target=query)), VERSION)
    for states in ({}, {"a2a-version": dialect.version}, {"a2a-version": f"{dialect.version}.7"}, {"a2a-version": ""}):
        answer = await served.ask(dialect, sent, **states)
        assert b"VERSION_NOT_SUPPORTED" not in answer.body, states
        assert answer.status == 200 or operation in REFUSED
    await served.rest()


def test_no_operation_is_without_a_row() -> None:
    """An operation that is served, and one that a row is about, is the other too."""
    operations = {row.operation for row in ROWS}
    assert operations == set(Dispatcher.METHOD_TO_MODEL)
    assert {RPC_V03[operation] for operation in operations if operation in RPC_V03} == set(V03Adapter.METHOD_TO_MODEL)
    for operation in operations:
        gives = {type(row.gives) for row in ROWS if row.operation == operation}
        assert gives == {str, Error} or operation in REFUSED
