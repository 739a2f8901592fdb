"""Conversations with an agent: `aion chat` and `aion send`.

chat          the conversation in the terminal
send          one message, for scripts
target        the agent that gets the messages
endpoint      the URL of a deployment
credentials   tokens, API keys, passwords and AWS signatures of the requests
session       the connection to the agent: messages, streamed events, resumption
reception     receives an answer to its end
tool_calls    the tool calls of an answer, from the trace of `aion dev`
timed_reply   one message and the times of its reply, for `aion doctor` and `aion deploy`
live_answer   shows an answer in the terminal while it is received
forms         asks for the fields of an answer
content       the parts that a user sends, and the answer as far as it is received
output        prints and saves an answer
"""
