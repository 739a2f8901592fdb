"""Adapter of Google ADK agents to the `Agent` port."""
