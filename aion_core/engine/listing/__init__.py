"""Lists of a caller's tasks, contexts and messages, read from indexes that may lag.

task_list.py        TaskList reads the indexes
list_tasks.py       the operation ListTasks
page_tokens.py      signed cursors of pages
conversations.py    messages and artifacts of a context, and the list of contexts
"""
