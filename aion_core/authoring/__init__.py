"""Library for agents' authors, published as `aion.langgraph`, `aion.adk` and `aion.shared`."""
