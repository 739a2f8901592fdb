"""Google ADK agents behind the `Agent` port; the twin of `agents/langgraph`."""
