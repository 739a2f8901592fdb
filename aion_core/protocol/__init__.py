"""A2A protocol: types, errors, cards, signatures and extensions.

types.py              the domain types, which are those of the official SDK
ids.py                the rule for ids
errors.py             Aion's errors as errors of the protocol
message_rules.py      limits of a message
media_types.py        media types of messages and agents
interrupts.py         questions in messages
adk_client.py         how requests of ADK's clients are recognized
answer_artifacts.py   messages of the agent as artifacts
stream_artifacts.py   transient artifacts of a stream
reserved_keys.py      metadata keys reserved for Aion
aion/                 the Aion extensions
strict_json.py        JSON of a client, parsed strictly and within limits
message_json.py       JSON of protobuf messages
v03_json.py           JSON of the SDK's models of v0.3
text.py               surrogates in text, which UTF-8 cannot encode
card.py               the agent card
card_v03.py           the card with the fields of v0.3 too
signing.py            signatures of cards
keys.py               keys for these signatures
"""
