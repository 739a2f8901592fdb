"""Lambda packages: a project's code and locked dependencies, built reproducibly."""
