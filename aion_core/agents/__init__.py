"""Agents as aion runs them: loaded from aion.yaml, one adapter for each framework."""
