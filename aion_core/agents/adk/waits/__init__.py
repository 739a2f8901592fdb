"""Waits of an ADK turn, for a time or a remote agent: the invocation stops by ADK's own pause, and resumes as after a crash.

tool_runs.py     the running tool call, and the exceptions that stop it
turn_waits.py    what the code of one turn waits for
pauses.py        the event by which ADK pauses the agents above, which is never stored
held_calls.py    tool calls of a model's message of which some still wait, and the results of the others
tool_batches.py  runs the tool calls of a model's message, and stops them together
tool_calls.py    calls of remote agents and sleeps by tools, and the questions of remote agents
"""
