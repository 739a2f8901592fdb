"""LangGraph graphs as agents: what goes in, how they run, what comes out."""
