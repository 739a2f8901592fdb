"""Sources of an agent's card beside aion.yaml: what its author has already written elsewhere.

sources.py          all sources of an agent, in order of precedence
declared_cards.py   an `AgentCard` in the agent's module, or in its request handler
card_file.py        a card in a file, such as the `agent.json` of an ADK agent's folder
texts.py            docstrings, and the description in pyproject.toml
aion_use.py         whether the agent's modules use what the Aion extensions carry
"""
