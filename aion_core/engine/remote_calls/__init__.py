"""Calls of remote agents by a task's turns: stored before they are sent, and canceled with the task.

records.py        a call, and what became of it
rows.py           a call as an item of the table
store.py          the calls of all tasks
turn_calls.py     the calls of one running turn
callbacks.py      one-use tokens by which remote agents bring looks forward
cancellation.py   cancels the calls of canceled tasks, in any process
"""
