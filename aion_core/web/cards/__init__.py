"""Agent cards as the server publishes them."""
