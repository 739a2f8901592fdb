"""Exporters of traces in an agent's code."""

from aion_core.authoring.before_freeze import before_freeze

__all__ = ["before_freeze"]
