"""Delegation: calls of remote agents (A2A) that survive the loss of either side.

news.py           what a remote agent says that its caller has not heard yet
durable_call.py   one call: send, follow, try again, until the remote agent has answered
cancel.py         cancel a call's remote task
depth.py          limit for agents that call each other in a loop
"""
