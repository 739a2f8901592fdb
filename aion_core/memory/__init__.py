"""The ports in a dict: for simulation, unit tests and measuring; the twin of `aion_core.aws`, under the same contract."""
