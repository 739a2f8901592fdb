"""The process around turns.

time_limits.py         time limits by the service's clock
deadline.py            its end, and the time that turns have to stop before it
background.py          turns that outlive their request
exits.py               agents' code that ends the process
exception_groups.py    the error to report of an exception group
"""
