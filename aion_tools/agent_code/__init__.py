"""The project's agents and modules, found by reading their code without running it.

project_agents   agents of a project, with their files and folders
imports          modules that the agents import, and their frameworks
aion_yaml        aion.yaml of the discovered agents of a project without one
card_keys        card of an agent as its author has written it
"""
