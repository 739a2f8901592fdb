"""Rule for ids of messages, tasks, contexts and push configs. Pure."""

MAX_ID_BYTES = 512
"""Maximum length of an id in UTF-8. A key of the table has at most 1024 bytes in its sort key (DynamoDB)."""

ID_RULE = f"a text of 1 to {MAX_ID_BYTES} bytes in UTF-8, without the character NUL"
"""Rule that `is_id` checks, as text for error messages."""


def is_id(value: str) -> bool:
    """Return True if the text is a valid id: any text (A2A 4.1.4) up to a maximum length."""
    # Refuse NUL, which separates ids in keys and hashes. `surrogatepass` encodes lone surrogates, which UTF-8 cannot.
    return "\0" not in value and 0 < len(value.encode("utf-8", "surrogatepass")) <= MAX_ID_BYTES
