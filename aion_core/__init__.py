"""A2A servers on AWS Lambda: one runner, one log, three readers."""

__version__ = "0.1.0"
