"""Servers and stacks for the end-to-end tests."""

from tests.support.e2e.fixtures import own_stack, server

__all__ = ["own_stack", "server"]
