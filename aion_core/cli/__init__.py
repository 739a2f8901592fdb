"""Command line program `aion`."""
