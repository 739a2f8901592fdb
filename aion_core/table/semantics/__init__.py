"""Meaning of conditions, changes, limits and pages by the documented rules of DynamoDB. Pure."""
