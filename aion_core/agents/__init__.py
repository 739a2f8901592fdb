"""Configuration, discovery and loading of agents, and an adapter for each framework."""
