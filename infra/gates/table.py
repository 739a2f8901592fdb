"""The table: the keys and indexes that the code asks for, rows that end, and a way back to what it was."""

from collections.abc import Iterator
from typing import Any

from aion_core.template.reader import TABLE
from infra.gates.code import constants, core
from infra.gates.deployed import Deployed

SHAPE = "ports/schema.py"
"""Where aion's code says what it asks for."""


def problems(deployed: Deployed) -> Iterator[str]:
    """Yield what the code would ask a table in vain, and what would be lost, or paid for, with it."""
    shape = constants(core(deployed.template) / SHAPE)
    indexes = [each for each in shape.values() if isinstance(each, dict) and "partition" in each]
    for name in deployed.template.resources(TABLE):
        table = deployed.template.resolved(name)
        yield from _indexes(name, table, indexes)
        if table.get("BillingMode") != "PAY_PER_REQUEST":
            yield f"{name} costs what it might be used, each month, and refuses more: BillingMode has to be PAY_PER_REQUEST"
        if not table.get("PointInTimeRecoverySpecification", {}).get("PointInTimeRecoveryEnabled"):
            yield f"{name} cannot be brought back to what it was: PointInTimeRecoveryEnabled"
        if not table.get("SSESpecification", {}).get("SSEEnabled"):
            yield f"{name} is not encrypted under a key of KMS"
        if table.get("TimeToLiveSpecification") != {"AttributeName": shape["TTL_ATTRIBUTE"], "Enabled": True}:
            yield f"{name} keeps everything for ever: TimeToLiveSpecification has to be enabled, of {shape['TTL_ATTRIBUTE']}"


def _indexes(name: str, table: dict[str, Any], indexes: list[dict[str, Any]]) -> Iterator[str]:
    """Every query finds its index, and in its entries what it filters by."""
    made: dict[str, Any] = {"": table}
    made |= {index["IndexName"]: index for index in table.get("GlobalSecondaryIndexes", [])}
    types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
    for asked in indexes:
        which = f"{name}'s index {asked['name']}" if asked["name"] else name
        if asked["name"] not in made:
            yield f"{name} has no index {asked['name']}: every query that asks it would fail"
            continue
        index = made[asked["name"]]
        keys = {asked["partition"]: "S", asked["sort"]: asked.get("sort_type", "S")}
        schema = [(each["AttributeName"], each["KeyType"]) for each in index["KeySchema"]]
        if schema != list(zip(keys, ("HASH", "RANGE"), strict=True)):
            yield f"{which} has the keys {schema}, and is asked by {' and '.join(keys)}: every query would fail"
        for key, kind in keys.items():
            if types.get(key, kind) != kind:
                yield f"{which}: {key} is written as {kind}, and would be refused as no {types[key]}"
        if asked["name"]:
            yield from _copied(which, index["Projection"], {*asked.get("copied", ())})
    for unknown in sorted(made.keys() - {asked["name"] for asked in indexes}):
        yield f"{name}: nothing asks the index {unknown}, and whatever is written to it is paid for"


def _copied(which: str, projection: dict[str, Any], filtered_by: set[str]) -> Iterator[str]:
    if projection["ProjectionType"] == "ALL":
        return
    for attribute in sorted(filtered_by - {*projection.get("NonKeyAttributes", [])}):
        yield f"{which} does not copy {attribute}, by which it is filtered: whatever it lists would be left out"
