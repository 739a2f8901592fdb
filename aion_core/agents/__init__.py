"""Adapters of agent frameworks to the `Agent` port, and the parts that they share.

The packages of the frameworks use the same names: `agent.py` is the adapter, `setup.py` what all turns share, `turn.py`
one turn, and `translation.py` makes emissions of the framework's events.

langgraph/            LangGraph graphs
adk/                  Google ADK agents
executor/             executors of the a2a-sdk
turn_context.py       the AionContext and the inbox of a turn
history.py            latest messages of a turn's context
message_text.py       texts of a client's message for the model
client_answers.py     the client's answers to an interrupted turn
restarts.py           reasons for the failure of a turn that starts over
questions.py          the message of an interrupted turn
expected_answers.py   the schema and the choices of the answers to its questions
json_schema.py        check of an answer by a JSON Schema
call_text.py          text of a function call
streams.py            order of concurrent message streams
author_sleeps.py      sleeps of an author's code in a turn that can be suspended
suspension.py         what a suspended turn waits for
waiting.py            what waits at the same time: emissions that share a transaction
speakers.py           names of a turn's speakers, in metadata
internal_events.py    log of model calls, tools and steps, for operators
helper_calls.py       calls of the author's helpers, as events of a turn
reply_sink.py         sends these calls to the turn's other events
addressing.py         adds the place of the client's event to messages without a target
reactions.py          reactions, such as an emoji, as artifacts
emission_ids.py       ids and idempotency keys of emissions
emitted_messages.py   messages that a turn has emitted
final_answer.py       decides what answers a turn
plain_json.py         JSON of any value, for A2A
"""
