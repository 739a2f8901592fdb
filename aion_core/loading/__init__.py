"""Loading of agents, from aion.yaml to an agent that answers turns.

deployment.py      reads an aion.yaml, or finds the agents of a project without one
aion_yaml/         the models of aion.yaml
answer_form.py     where an agent's answer is, if aion.yaml does not say
discovery/         finds agents without importing their code
agent_cards.py     cards, from the agents' configuration and code
card_sources/      what an author has written about an agent beside aion.yaml
auth_policies.py   auth policies, from the agents' configuration
init_phase.py      loads all agents at the start of a Lambda environment
lazy_agent.py      an agent whose code is imported when it is needed
outside_turns.py   work of agents outside of their turns: for remote tasks, and for canceled ones
importing/         imports agents' modules
objects/           finds the agent object in its module
build_agent.py     calls the adapter of its framework
frameworks.py      the supported frameworks
load_errors/       explains to the author why an agent cannot be loaded
suggestions.py     suggests the name that an author has probably meant
"""
