"""Admission of messages: each is stored once, and its turn runs or waits.

admission.py     MessageAdmission decides what a message is: a new task, an answer, a repeat
messages.py      what it asks to store: NewTask or FollowUp
new_tasks.py     rules for a message that creates a task
follow_ups.py    rules for a message to an existing task
repeats.py       a messageId or Idempotency-Key that is already stored
quotas.py        the limit of a caller's open tasks
store.py         MessageStore applies the rules, each in one transaction
"""
