"""Deployment of a project by SAM CLI."""
