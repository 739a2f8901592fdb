"""Issuer of tokens for the tests of limits over HTTP."""

from tests.support.issuer import issuer

__all__ = ["issuer"]
