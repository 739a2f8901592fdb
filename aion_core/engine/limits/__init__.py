"""Limits per caller: requests, open streams and open tasks.

limits.py                                the limits, and what they count
requests.py, streams.py, open_tasks.py   one count each
rate_limits.py                           RateLimits keeps the counts in the table
"""
