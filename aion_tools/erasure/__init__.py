"""Deletion of all data of some owners, for `aion data delete`."""
