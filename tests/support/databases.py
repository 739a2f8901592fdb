"""Databases of the contract suites: moto, ministack, and the endpoint DYNAMODB_ENDPOINT."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pytest

from aion_core.clock import Clock
from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.local.sqlite.blobs import SQLiteBlobs
from aion_core.local.sqlite.table import SQLiteTable
from aion_core.table.blobs import Blobs
from aion_core.table.port import Table
from aion_tools.stack import REGION
from aion_tools.stack.resources import create_resources, create_tables
from aion_tools.stack.stack import SETTINGS, LocalStack, client_of
from aion_tools.template.reader import TABLE, Place, Template
from tests.support import ministack
from tests.support.faulty_table import FaultyTable
from tests.support.server import ROOT

DEFAULT = ("moto", "ministack")
FASTEST = "ministack"
"""Database by default: it takes a third of moto's time, and its refusals are closer to DynamoDB's."""

LOCAL = ("memory", "sqlite")
"""Tables and blobs that need no emulator."""


def local_table(kind: str, clock: Clock, folder: Path) -> Table:
    """Return a table of this kind: in memory, or in a SQLite file in the folder."""
    return FaultyTable(clock) if kind == "memory" else SQLiteTable(folder / "table.sqlite", clock)


def local_blobs(kind: str, clock: Clock, folder: Path) -> Blobs:
    """Return a blob store of this kind: in memory, or in a SQLite file in the folder."""
    return MemoryBlobs() if kind == "memory" else SQLiteBlobs(folder / "blobs.sqlite", clock)


class ReachableStack(Protocol):
    """A stack whose services the test can reach."""

    def client(self, service: str) -> Any:
        """Return a client of the stack's DynamoDB, SQS or S3."""

    def environment(self, function: str) -> dict[str, str]:
        """Return the environment variables of the function in the template, and those that point to this stack."""


class Stack(ReachableStack, Protocol):
    """The template's tables, queues and buckets, on some database."""

    template: Template


def chosen(default: tuple[str, ...] = (FASTEST,)) -> tuple[str, ...]:
    """Return the databases of this run: those that AION_TEST_DATABASES names (`all` for all), or else `default`."""
    return chosen_for_each() if _named() else default


def chosen_for_each() -> tuple[str, ...]:
    """Return the databases of a test with the marker `each_database`: the fastest, unless AION_TEST_DATABASES names others."""
    there = (*DEFAULT, *(["endpoint"] if os.environ.get("DYNAMODB_ENDPOINT") else []))
    named = _named()
    for name in named:
        if name == "endpoint" and name not in there:
            raise pytest.UsageError("AION_TEST_DATABASES: DYNAMODB_ENDPOINT does not say where `endpoint` is")
        if name not in (*there, "all"):
            raise pytest.UsageError(f"AION_TEST_DATABASES: {name} is none of all, {', '.join(there)}")
    return there if "all" in named else named or tuple(name for name in there if name != "moto")


def _named() -> tuple[str, ...]:
    return tuple(name.strip() for name in os.environ.get("AION_TEST_DATABASES", "").split(",") if name.strip())


class MadeStack:
    """Resources of the template at the address of an emulator; DynamoDB may have another address."""

    def __init__(self, place: Place, *, dynamodb: str | None = None) -> None:
        self._dynamodb = dynamodb or place.endpoint
        self.template = Template(ROOT / "template.yaml", place)
        create_resources(self.template, self.client)

    def client(self, service: str) -> Any:
        return client_of(service, self._dynamodb if service == "dynamodb" else self.template.place.endpoint)

    def environment(self, function: str) -> dict[str, str]:
        there = {"AWS_ENDPOINT_URL": self.template.place.endpoint, "AWS_ENDPOINT_URL_DYNAMODB": self._dynamodb}
        return {**self.template.environment(function), **SETTINGS, **there}


def empty(stack: Stack) -> None:
    """Create the stack's tables anew, and empty its bucket: moto scans a whole table to query an index."""
    dynamodb = stack.client("dynamodb")
    tables = stack.template.resources(TABLE)
    for table in tables:
        dynamodb.delete_table(TableName=stack.template.attribute(table, None, table))
    create_tables(stack.template, tables, dynamodb)
    s3, bucket = stack.client("s3"), stack.environment("ApiFunction")["AION_BUCKET"]
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        if found:
            objects = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
            s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})


@contextmanager
def on_ministack() -> Iterator[Stack]:
    """Yield a stack on a ministack of its own."""
    with ministack.serving() as endpoint:
        yield MadeStack(Place(ministack.ACCOUNT, REGION, endpoint, "contract"))


@contextmanager
def on_endpoint(moto: LocalStack) -> Iterator[Stack]:
    """Yield a stack with its tables at DYNAMODB_ENDPOINT, and the rest on moto."""
    # Use new names each time, because the tables of an earlier run may still exist.
    place = Place(moto.template.place.account, REGION, moto.endpoint, f"contract-{uuid4().hex[:8]}")
    stack = MadeStack(place, dynamodb=os.environ["DYNAMODB_ENDPOINT"])
    try:
        yield stack
    finally:
        for table in stack.template.resources(TABLE):
            stack.client("dynamodb").delete_table(TableName=stack.template.attribute(table, None, table))
