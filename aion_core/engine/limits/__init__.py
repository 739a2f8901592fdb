"""Limits per caller: requests, open streams and open tasks.

limits.py                                the limits, and what they count
requests.py, streams.py, open_tasks.py   one count each
rate_limits.py                           RateLimits keeps the counts in the table

The counts refuse nothing themselves. The refusals are in aion_core/web/middleware/rate_limit.py (requests),
aion_core/web/stream_limits.py (streams) and aion_core/engine/admission/quotas.py (open tasks).
"""
