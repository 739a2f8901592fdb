"""Surrogates in text, which UTF-8 cannot encode."""


def utf8(text: str) -> str:
    """Join the halves of surrogate pairs, and replace lone halves by question marks, because UTF-8 cannot encode them.

    A model may split a pair between two chunks, or end its text with half a pair.
    """
    if text.isascii():
        return text
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return joined.encode("utf-8", "replace").decode()


def is_text(text: str) -> bool:
    """Return True if UTF-8 can encode the text. It cannot encode a lone surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
