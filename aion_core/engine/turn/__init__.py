"""A turn: how it begins, records events, is suspended and ends."""
