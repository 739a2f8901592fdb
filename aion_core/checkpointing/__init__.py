"""LangGraph persistence: the serializer of checkpoints and the store of long-term memory."""
