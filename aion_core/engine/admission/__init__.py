"""Admission of messages: each is stored once, and its turn runs or waits."""
