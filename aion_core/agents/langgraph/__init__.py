"""Adapter of LangGraph graphs to the `Agent` port."""
