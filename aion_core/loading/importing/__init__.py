"""Import of agents' modules, so that each file has only one module."""
