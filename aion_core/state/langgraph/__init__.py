"""Checkpoints and stores of LangGraph."""
