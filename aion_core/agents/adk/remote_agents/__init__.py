"""ADK's `RemoteA2aAgent` in unchanged code: its calls survive the loss of either process, and are canceled with the task.

durability.py       makes the class durable within a turn, and finds its instances
turn_calls.py       the running turn, as its calls need it
run.py              one run of a RemoteA2aAgent
call_places.py      where the agent makes its calls
contact.py          first contact: the remote agent's card
answers.py          answers to a request for a credential, as ADK passes them on
whole_responses.py  responses in the form that ADK reads without losing a part
running_task.py     the remote task as ADK's code follows it
marks.py            which call an ADK event belongs to, and what it says of it
remote_tasks.py     looks at a call's remote task, and cancels it
"""
