"""LangGraph's serializer, its store of long-term memory, and the fence of a turn."""
