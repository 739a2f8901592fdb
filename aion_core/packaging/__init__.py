"""Lambda packages: selection of a project's code and locked dependencies, and their reproducible build."""
