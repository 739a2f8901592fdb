"""Adapter of Google ADK agents to the `Agent` port.

agent.py              the adapter, which starts ADK's Runner or resumes it
setup.py              the App of an agent, prepared for all turns
agent_config.py       agent that a `root_agent.yaml` declares
agent_tree.py         tree of the agents of an App
card.py               what an agent says about itself
turn.py               one turn
runner.py             its ADK Runner
turn_sessions.py      its ADK session service
parts.py              A2A parts from and to ADK content
resumption.py         rules for the resumption of an interrupted invocation
node_resumption.py    resumption of a Workflow's nodes
node_steps.py         check of the lease before each of these nodes
open_branches.py      parallel agents that wait for the client while others go on
invocation.py         progress of the running invocation, event by event
rewind.py             the session as it was before a turn that starts over
markers.py            which events are progress markers
progress_markers.py   events that record how far each agent has come
redeployment.py       agents that a later deployment lacks
pending_calls.py      function calls that wait for the user
call_questions.py     the questions that they ask the client
interrupts.py         the question of an interrupt, and the client's answer
approvals.py          approvals of tool calls
credentials.py        credentials that an agent requests from the client
canceled_calls.py     function calls that a canceled or failed turn has left open
remote_agents/        calls by ADK's RemoteA2aAgent
waits/                turns that wait without a process
callbacks.py          ADK plugin, which observes agents, model calls and tools
traced_callbacks.py   the plugin of a traced turn, which also records them
event_queue.py        events of a turn, which the runner records before their sender continues
event_keys.py         idempotency keys of events
agent_streams.py      texts that agents stream, and when they are complete
translation.py        events as emissions
workflow_outputs.py   which output of a node is that of the root
outbox.py             the outbox in the session's state
"""
