"""Deliveries to webhooks: push configs, the progress of each, and the schedule of retries."""
