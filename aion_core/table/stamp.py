"""Stamp of an item: the attributes that every item has. Pure."""

from aion_core.table.item import Item
from aion_core.table.keys import owner_tag
from aion_core.table.schema import OWNER_ATTRIBUTE, TTL_ATTRIBUTE, VERSION, VERSION_ATTRIBUTE


def stamp(owner: str | None, expires: int | None = None) -> Item:
    """Return the version, the owner's tag and the TTL of an item written now.

    Pass the owner whose deletion must delete the item: `aion data delete` finds it by this attribute only. The owner is
    None for what belongs to the deployment. `expires` is in seconds; None for an item that does not expire.
    """
    item: Item = {VERSION_ATTRIBUTE: VERSION}
    if owner is not None:
        item[OWNER_ATTRIBUTE] = owner_tag(owner)
    if expires is not None:
        item[TTL_ATTRIBUTE] = expires
    return item
