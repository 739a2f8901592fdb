"""Sessions and artifacts of Google ADK."""
