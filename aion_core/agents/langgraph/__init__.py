"""Adapter of LangGraph graphs to the `Agent` port.

agent.py               the adapter, which starts, resumes or repeats a turn
setup.py               the compiled graph, prepared for all turns
graph.py               keys of its state and tools of its nodes
context_schema.py      its context schema, filled from aion.yaml
stored_classes.py      author's classes that checkpoints may contain
turn.py                one turn: persistence, input and stream
thread.py              the LangGraph thread of a turn
turn_input.py          input of a turn
input_contract.py      what a message has to have to start the graph
input_fields.py        input with named fields
input_value.py         input that is one value
input_types.py         types of the input as checks
input_example.py       JSON Schema and example of the input
profile.py             what the graph says about its agent
parts.py               A2A parts from and to LangChain content
media.py               files in LangChain messages as A2A parts
resumption.py          rules for the resumption of an interrupted turn
redeployment.py        nodes and channels that a later deployment lacks
loopback.py            calls of LangGraph's own server
interrupts.py          the question of an interrupt, and the Command that resumes the graph
approvals.py           approvals of tool calls
agent_inbox.py         requests in the form of LangChain's Agent Inbox
canceled_calls.py      tool calls that a canceled or failed turn has left open
callbacks.py           LangChain callbacks, which observe model calls, tools and nodes
traced_callbacks.py    the callbacks of a traced turn, which also record them
model_calls.py         model calls that are not for the client
remote_calls.py         calls of remote agents by nodes and tools
remote_questions.py     questions of remote agents as interrupts
waits.py                waits as interrupts that no client answers
reply_sink.py          takes the calls of the author's helpers
loop_wakeups.py        wake-ups of the event loop, which streamed chunks request
translation.py         stream events as emissions
author_emissions.py    emissions of the author's code
said_text.py           one text of a turn, and its place among the others
said_texts.py          texts of a turn: which become messages, when, and in which order
model_streams.py       streams of model calls
pending_emissions.py   emissions that the runner has not recorded yet
state.py               values in a graph's state
added_messages.py      messages that a turn adds to the state
unreturned_output.py   output that the state lacks
graph_answer.py        answers of a turn in its messages or its return value
written_values.py      values that a turn has written, as its answer or beside it
"""
