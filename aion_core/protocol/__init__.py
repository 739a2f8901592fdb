"""A2A protocol: types, errors, cards, signatures and extensions."""
