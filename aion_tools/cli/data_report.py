"""Report of the data of some owners, and of the progress of a search."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from aion_core.errors import ConfigurationError
from aion_tools.cli import documents
from aion_tools.cli.data_owners import NamedOwner

if TYPE_CHECKING:
    from aion_tools.erasure.found import OwnedData


class DataReport:
    """Report of the data found for the chosen owners: numbers of items for each owner and for each store."""

    def __init__(self, owners: Sequence[NamedOwner], found: "OwnedData") -> None:
        self._found = found
        counts = Counter(row.owner for row in found.rows) + Counter(version.owner for version in found.versions)
        self._owners = [(owner, counts[owner.owner]) for owner in owners]

    def check(self) -> None:
        """Raise ConfigurationError if the kind of an item is unknown, because the item may belong to the owner."""
        if self._found.unknown:
            kinds = ", ".join(f"{count} {prefix}…" for prefix, count in sorted(self._found.unknown.items()))
            raise ConfigurationError(
                f"The table holds items unknown to this version of aion ({kinds}), perhaps the owner's. "
                "Install the deployment's version and run the command again."
            )

    def print(self) -> None:
        """Print the report as text. Print the owners to stderr, and a table of the stores to stdout."""
        click.echo(f"Searched for {len(self._owners)} owners:" if len(self._owners) > 1 else "Searched for:", err=True)
        for owner, count in self._owners:
            if count or len(self._owners) <= 10:
                click.echo(f"  {owner.description}: {count or 'no items'}", err=True)
        if self._found.running:
            click.echo(f"{turns_of(self._found)} running.", err=True)
        columns = ("store", "items", "versions", "bytes")
        documents.print_rows(self.lines, columns, "data of this owner")

    def document(self, left: "OwnedData | None") -> dict[str, Any]:
        """Return the report as a JSON object. `left` is the data that a deletion has left; None without a deletion."""
        return {
            "owners": [
                {"owner": of.owner, "subject": of.subject, "issuer": of.issuer, "tenant": of.tenant, "found": count}
                for of, count in self._owners
            ],
            "running": len(self._found.running),
            "stores": self.lines,
            "deleted": left is not None,
            "left": count_of(left if left is not None else self._found),
        }

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Name, number of items, number of object versions and bytes of each store that has data of the owners."""
        from aion_tools.erasure import kinds
        from aion_tools.erasure.found import MENTIONS

        items, versions, size = Counter[str](), Counter[str](), Counter[str]()
        for row in self._found.rows:
            items[row.store] += 1
            size[row.store] += row.size
        for version in self._found.versions:
            versions[version.store] += 1
            size[version.store] += version.version.size
        items[MENTIONS] = len(self._found.mentions)
        return [
            {"store": store, "items": items[store], "versions": versions[store], "bytes": size[store]}
            for store in dict.fromkeys((*kinds.ITEMS.values(), *items, *kinds.OBJECTS.values()))
            if items[store] or versions[store]
        ]


class Progress:
    """Progress messages on stderr, at most one a second."""

    def __init__(self) -> None:
        self._printed_at = time.monotonic()

    def __call__(self, unit: str, count: int) -> None:
        """Print the count of the unit, such as items read, unless a message was printed less than a second ago."""
        now = time.monotonic()
        if now - self._printed_at >= 1:
            self._printed_at = now
            click.echo(f"{count:,} {unit}", err=True)


def turns_of(found: "OwnedData") -> str:
    """Return the beginning of a sentence about the running turns."""
    return "The turn of a task is" if len(found.running) == 1 else f"The turns of {len(found.running)} tasks are"


def count_of(found: "OwnedData") -> int:
    """Return the number of items, object versions and mentions."""
    return len(found.rows) + len(found.versions) + len(found.mentions)
