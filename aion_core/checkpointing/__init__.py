"""LangGraph persistence: serializer of checkpoints and store of long-term memory."""
