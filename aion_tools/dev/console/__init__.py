"""Half of the browser console that exists only in `aion dev`: stored state, webhooks, and ending the worker process."""

RECEIVER_PATH = "/console/receiver"
"""Path of the webhook receiver."""
