"""Containers for tests: a docker engine and Lambda's image in it, both made here where a machine has neither."""
