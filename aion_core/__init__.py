"""Framework for A2A servers on AWS Lambda."""

__version__ = "0.1.0"
