"""Loading of agents: aion.yaml, discovery, import, and explanations of what fails."""
