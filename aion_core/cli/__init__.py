"""The `aion` command."""
