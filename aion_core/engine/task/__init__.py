"""A task: its states, head and event log, and the task as the fold of this log.

states.py         the states, and which may follow which
timestamps.py     times of statuses
head.py           the head: state, event number, fence
subscribers.py    the push subscribers that the head counts
updates.py        the status updates that the engine itself records
transition.py     changes of contexts, heads and logs that are written together
projection.py     the fold of a log
rows.py           events, snapshots and queued messages as items of the table
delta_rows.py     streamed text as items of the table
log.py            TaskLog reads a log from these items
"""
