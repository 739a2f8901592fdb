"""Streams: live to the clients of this process, and stored for readers in others."""
