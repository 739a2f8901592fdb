"""The Aion extensions to A2A: what they are called, what their payloads hold, and where these stand (R51, R53, R58)."""
