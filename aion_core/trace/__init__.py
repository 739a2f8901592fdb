"""Trace of each turn: what the agent did, step by step, with times, tokens, arguments and results.

step.py      the record of a step
content.py   arguments and results as short texts without credentials
recorder.py  records the steps of one turn; the adapters of the frameworks call it
tracer.py    makes the recorders of a process
rows.py      steps as items of the table, and back
store.py     writes the steps of a turn to the table, and reads those of a task
line.py      a step as one line of text

A trace is never sent to a client. A process that neither stores nor exports traces has no recorder (docs/decisions/0065).
"""
