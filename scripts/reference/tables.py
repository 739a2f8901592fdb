"""Cells of Markdown tables."""


def cell(text: str) -> str:
    """Return the text as a cell of a Markdown table. Within code, Markdown shows an escaped bar with its backslash."""
    pieces = " ".join(text.split()).split("`")
    pieces[::2] = [piece.replace("|", "\\|") for piece in pieces[::2]]
    return "`".join(pieces)


def code(text: str) -> str:
    """Return the text as code in a cell, or "" for an empty text."""
    return cell(f"`{text}`") if text else ""
