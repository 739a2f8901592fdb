"""Loading of agents, from aion.yaml to an agent that answers turns.

`deployment.py` reads an aion.yaml (`aion_yaml/`), or finds the agents of a project without one (`discovery/`).
`agent_cards.py` and `auth_policies.py` convert an agent's configuration to its card and its auth policy.

`init_phase.py` and `lazy_agent.py` decide when an agent is loaded. Then its code is imported (`importing/`), the agent
object is found there (`objects/`), and `build_agent.py` calls the adapter of its framework (`frameworks.py`). If a step
fails, `load_errors/` explains the reason to the author.
"""
