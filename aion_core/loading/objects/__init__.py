"""The agent object at a `path` from aion.yaml: found in its module, and made by its function or class."""
