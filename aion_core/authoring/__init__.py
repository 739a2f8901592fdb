"""What an agent's author works with; `aion.langgraph` and `aion.shared` give it its public names."""
