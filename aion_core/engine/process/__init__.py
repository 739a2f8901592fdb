"""The process around turns.

deadline.py            its end, and the time that turns have to stop before it
background.py          turns that outlive their request
exits.py               agents' code that ends the process
exception_groups.py    the error to report of an exception group
"""
