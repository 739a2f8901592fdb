"""`aion data delete` over everything that two persons leave in a deployment: one of them goes, the other stays as is."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aion_core.aws.owned import STORES
from tests.support import operating
from tests.support.engines import Stack
from tests.support.erased import (
    AION_YAML,
    Person,
    bucket_versions,
    environment,
    lives,
    of_person,
    run_in_thread,
    table_items,
)

pytestmark = pytest.mark.each_engine

Delete = Callable[..., Awaitable[Any]]

OF_A_DEPLOYMENT = {"app state", "secrets"}


@pytest.fixture
def delete(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Delete:
    environ = environment(stack)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    run = operating.runs(environ)

    def with_config(*arguments: object) -> Any:
        return run_in_thread(run, "data", "delete", "--config", AION_YAML, *arguments)

    return with_config


async def test_delete_leaves_nothing_of_owner(stack: Stack, delete: Delete) -> None:
    alice, bob = Person("alice@example.com"), Person("bob@example.com")
    await lives(stack, alice)
    await lives(stack, bob)
    items, versions = table_items(stack), bucket_versions(stack)
    bobs = of_person(bob, items), of_person(bob, versions)
    dry = await delete("--subject", alice.name, "--json")
    assert dry.exit_code == 0, dry.output
    report = json.loads(dry.stdout)
    assert {store["store"] for store in report["stores"]} >= set(STORES) - OF_A_DEPLOYMENT
    assert (report["deleted"], report["running"]) == (False, 1)
    assert (table_items(stack), bucket_versions(stack)) == (items, versions)
    assert report["left"] == len(of_person(alice, items)) + len(of_person(alice, versions))
    done = await delete("--subject", alice.name, "--yes")
    assert done.exit_code == 0, (done.output, done.exception)
    assert of_person(alice, table_items(stack)) == []
    assert of_person(alice, bucket_versions(stack)) == []
    assert (of_person(bob, table_items(stack)), of_person(bob, bucket_versions(stack))) == bobs
    again = await delete("--subject", alice.name, "--yes")
    assert (again.exit_code, again.stdout) == (0, "")
    assert "There is nothing of this owner." in again.stderr
