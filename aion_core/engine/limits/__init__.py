"""Limits per caller: requests, open streams and open tasks."""
