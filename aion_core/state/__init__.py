"""State of the frameworks: LangGraph's checkpoints, ADK's sessions and artifacts, long-term memory."""
