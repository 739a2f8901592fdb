"""Adapter for LangGraph graphs: input, execution, interrupts and output of a turn."""
