"""Aion extensions to A2A: their URIs, their payloads, and the places of payloads in a message."""
