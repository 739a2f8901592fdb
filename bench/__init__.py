"""Benchmarks of this server, the official A2A SDK's server and a bare Starlette app, all with the same graph."""
