"""Conversations with an agent: `aion chat` and `aion send`.

chat        the conversation in the terminal
send        one message, for scripts
target      the agent that gets the messages
session     the connection to the agent: messages, streamed events, resumption
reception   receives an answer to its end
content     the parts that a user sends, and the answer as far as it is received
output      prints and saves an answer
"""
