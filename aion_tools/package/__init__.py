"""Build of Lambda packages with a project's code and its locked dependencies. Builds are reproducible."""
