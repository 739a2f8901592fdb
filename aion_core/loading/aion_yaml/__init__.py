"""aion.yaml, a deployment's configuration file: a model for each section, the reading of the file, and its mistakes.

A key is a field of a model here. `file.py` has the keys of all agents and `agent.py` those of one agent; the models of
their sections are in `card.py`, `cors.py`, `environment.py`, `remotes.py` and `security.py`. The keys that decide how
an agent runs take effect in:

    path                      aion_core/loading/objects/
    double_texting            aion_core/engine/admission/
    reply, answer             aion_core/engine/runner/execution.py, aion_core/engine/answer.py
    push.events               aion_core/engine/task/subscribers.py
    push.redact_secrets       aion_core/push/configs.py
    resume                    aion_core/agents/adk/agent.py, aion_core/agents/executor/agent.py
    recursion_limit           aion_core/agents/langgraph/agent.py
    configuration             the adapter of each framework below aion_core/agents/
"""
