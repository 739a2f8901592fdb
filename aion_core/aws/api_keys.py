"""API keys on DynamoDB, with the promises of `ports.ApiKeys`: an item each, found by its id, listed by an index."""

from collections.abc import Sequence
from datetime import UTC, datetime

from aion_core.aws import items, keys
from aion_core.aws.client import Calls, Refused
from aion_core.aws.items import Item
from aion_core.aws.table import Table
from aion_core.aws.writes import FIRST_TIME, put
from aion_core.errors import StoreError
from aion_core.ports import Clock, KeyRecord
from aion_core.ports.schema import BY_AGENT


class DynamoDBApiKeys:
    """`ports.ApiKeys` in the one table."""

    def __init__(self, dynamodb: Calls, clock: Clock, *, table: str) -> None:
        self._dynamodb, self._name = dynamodb, table
        self._table = Table(dynamodb, clock, name=table)

    async def add(self, key: KeyRecord) -> None:
        """See `ports.ApiKeys.add`."""
        write = put(self._name, keys.api_key_key(key.id), _attributes(key), only_if=FIRST_TIME)
        try:
            await self._dynamodb("put_item", **write["Put"])
        except Refused as error:
            found = await self._table.get(keys.api_key_key(key.id))
            # An earlier try of this very call may have been heard after all.
            if found is None or _record(found) != key:
                raise StoreError("There is a key of this id.") from error

    async def find(self, key_id: str) -> KeyRecord | None:
        """See `ports.ApiKeys.find`."""
        item = await self._table.get(keys.api_key_key(key_id))
        return _record(item) if item is not None else None

    async def all(self) -> Sequence[KeyRecord]:
        """See `ports.ApiKeys.all`."""
        found: list[KeyRecord] = []
        start: dict[str, Item] = {}
        while True:
            answer = await self._dynamodb(
                "query",
                TableName=self._name,
                IndexName=BY_AGENT.name,
                KeyConditionExpression=f"{BY_AGENT.partition} = :keys",
                ExpressionAttributeValues={":keys": items.text(keys.LISTING_API_KEYS)},
                ScanIndexForward=False,
                **start,
            )
            for entry in answer["Items"]:
                item = await self._table.get({"pk": entry["pk"], "sk": entry["sk"]})
                if item is not None:
                    found.append(_record(item))
            if "LastEvaluatedKey" not in answer:
                return found
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    async def revoke(self, key_id: str) -> bool:
        """See `ports.ApiKeys.revoke`."""
        answer = await self._dynamodb(
            "delete_item", TableName=self._name, Key=keys.api_key_key(key_id), ReturnValues="ALL_OLD"
        )
        return "Attributes" in answer


def _attributes(key: KeyRecord) -> Item:
    created = items.milliseconds(key.created)
    attributes = {
        "v": items.number(items.VERSION),
        "sha256": items.text(key.sha256),
        "principal": items.text(key.principal),
        "created": items.number(created),
        "last4": items.text(key.last4),
        "scopes": {"L": [items.text(scope) for scope in sorted(key.scopes)]},
        "tenant": items.text(key.tenant),
        BY_AGENT.partition: items.text(keys.LISTING_API_KEYS),
        BY_AGENT.sort: items.text(keys.listing_at(created, key.id)),
    }
    if key.agents is not None:
        attributes["agents"] = {"L": [items.text(agent) for agent in sorted(key.agents)]}
    if key.expires is not None:
        attributes["expires"] = items.number(int(key.expires.timestamp()))
    return attributes


def _record(item: Item) -> KeyRecord:
    return KeyRecord(
        id=keys.api_key_of(item),
        sha256=item["sha256"]["S"],
        principal=item["principal"]["S"],
        created=datetime.fromtimestamp(int(item["created"]["N"]) / 1000, UTC),
        last4=item["last4"]["S"],
        agents=_texts(item["agents"]) if "agents" in item else None,
        scopes=_texts(item["scopes"]),
        tenant=item["tenant"]["S"],
        expires=datetime.fromtimestamp(int(item["expires"]["N"]), UTC) if "expires" in item else None,
    )


def _texts(attribute: Item) -> frozenset[str]:
    return frozenset(each["S"] for each in attribute["L"])
