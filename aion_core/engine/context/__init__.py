"""A context (conversation): its lease, running turn and waiting turns.

record.py        the record as read from the table, and the turn to begin
conditions.py    conditions on the record
changes.py       every change of the record, each with its condition
"""
