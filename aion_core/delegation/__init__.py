"""Delegation: calls of remote agents (A2A) that survive the loss of either side.

remote.py         a remote agent: name, address, credentials
remotes.py        remote agents by name or URL
card_client.py    client that reads a remote agent's card, and uses it again
credentials.py    authentication by a secret in a header
client.py         the requests that a call needs of a client
news.py           what a remote agent says that its caller has not heard yet
durable_call.py   one call: send, follow, try again, until the remote agent has answered
kept_answer.py    what a call keeps of the answer, within the limits of agents
outcome.py        the answer or question in a call's responses
callbacks.py      the request that a remote agent reports the end of a task
callback_address.py   the address at which it does so
looks.py          looks at the tasks for which suspended turns wait
patience.py       how long a turn waits for an answer
author_calls.py   the calls of an author's code in one turn: recognised again, with their questions and files
ids.py            messageId and contextId, derived from the caller's task
cancel.py         cancel a call's remote task
depth.py          limit for agents that call each other in a loop
"""
