"""Turns of this process, under leases that heartbeats renew.

worker.py       Worker takes the turns of wake-up messages
runner.py       TaskRunner runs one turn until its end or the deadline
emissions.py    the loop over what the agent emits
execution.py    TurnExecution records and publishes what the agent emits
turn_text.py    its streamed text
labels.py       its labels in log records and traces
restarts.py     in the trace, why a turn runs again
failures.py     too many tries, and error texts
heartbeat.py    threads that renew a turn's lease
lease_term.py   until when this process may act on a lease
renewal.py      the steps of a renewal
metrics.py      metrics of a turn
"""
