"""Library for agents' authors, published as `aion.langgraph`, `aion.adk` and `aion.shared`.

context.py         context of a turn: the event, the inbound message, the thread for replies
types.py           inbox and outbox
turn_variables.py  what the code of a turn finds of it
emit.py            functions with which a LangGraph node emits files, data, messages and metadata
remote.py          calls of other agents, and their answers
sleeping.py        sleeps, for which nothing runs
before_freeze.py   functions that run before Lambda may freeze the process
events.py          LangGraph node that calls a handler for the turn's event
scripted_chat_model.py   LangGraph's chat model without a provider
scripted_llm.py    ADK's model without a provider
reply_content.py   arguments of a reply, as A2A
a2a_objects.py     messages and tasks of an author, as A2A
json_values.py     an author's values as JSON, protobuf values and bytes
v03_json.py        v0.3 JSON as v1 JSON
"""
