"""Aion extensions to A2A: URIs, payloads, and the places of payloads in a message."""
