"""Adapter of the a2a-sdk's `AgentExecutor` to the `Agent` port."""
