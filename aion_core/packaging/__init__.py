"""Build of Lambda packages with a project's code and its locked dependencies. The same input gives the same bytes."""
