"""Items of another layout in a DynamoDB table."""

from typing import Any

from tests.support.databases import Stack
from tests.support.pushes import Pushes


class OtherVersion:
    """A task's items in the table, of which a test gives some another version."""

    def __init__(self, stack: Stack, push: Pushes) -> None:
        self._client, self.table = stack.client("dynamodb"), stack.environment("ApiFunction")["AION_TABLE"]
        self._owner = push.chat.context.owner

    def items(self) -> list[dict[str, Any]]:
        found = self._client.get_paginator("scan").paginate(TableName=self.table)
        mine = [item for page in found for item in page["Items"] if self._owner in item["pk"]["S"]]
        return sorted(mine, key=lambda item: (item["pk"]["S"], item["sk"]["S"]))

    def set(self, kind: str, version: int) -> None:
        """Set the version of the items whose partition and sort key, as one text, contain `kind`."""
        chosen = [item for item in self.items() if kind in f"{item['pk']['S']} {item['sk']['S']}"]
        assert chosen, kind
        for item in chosen:
            self._client.put_item(TableName=self.table, Item=item | {"v": {"N": str(version)}})
