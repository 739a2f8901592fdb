"""Aion extensions to A2A: URIs, payloads, and their places in a message."""
