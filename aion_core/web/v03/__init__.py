"""A2A v0.3: its requests and responses, converted from and to v1.0.

The SDK's `a2a.compat.v0_3.conversions` makes the types of v0.3 and the names in them, such as the state
`input-required`. operations.py, tasks.py, stream.py and proto.py call it.

    answers.py          answers to requests in JSON-RPC and HTTP+JSON; the bindings call it
    operations.py       the operations of v0.3, each with its conversion
    conversion.py       V03Conversion, the conversions of one operation
    tasks.py            conversions of the operations on messages and tasks
    push_configs.py     conversions of the operations on push configs
    stream.py           formats of Server-Sent Events
    jsonrpc_types.py    JSON-RPC: the SDK's types, parsed with readable errors
    http_forms.py       HTTP+JSON: which of its two forms a request has
    http_message.py     HTTP+JSON: messages, in both forms
    proto.py            HTTP+JSON: the JSON of v0.3's proto file

The modules build the SDK's models of v0.3, which takes a fifteenth of a cold start. So the bindings import them at the
first v0.3 request.
"""
