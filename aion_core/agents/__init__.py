"""Configuration, discovery and loading of agents, with an adapter for each framework."""
