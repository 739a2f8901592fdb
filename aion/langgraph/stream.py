"""Emissions of a running node through LangGraph's StreamWriter."""

from aion_core.authoring.emit import emit_data, emit_file, emit_message, emit_task_metadata

__all__ = ["emit_data", "emit_file", "emit_message", "emit_task_metadata"]
