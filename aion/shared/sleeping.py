"""Sleeps of an agent's code, for which nothing runs."""

from aion_core.authoring.sleeping import sleep

__all__ = ["sleep"]
