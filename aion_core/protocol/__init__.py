"""The words of A2A: its types, its errors, its card, and the older dialect."""
