"""Adapters of agent frameworks to the `Agent` port, and the parts that they share."""
