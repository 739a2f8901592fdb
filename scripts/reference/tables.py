"""Cells of Markdown tables."""


def cell(text: str) -> str:
    """Return the text as a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Return the text as code in a cell, or "" for an empty text."""
    return f"`{cell(text)}`" if text else ""
