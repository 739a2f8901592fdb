"""Executors of the a2a-sdk on this engine."""
