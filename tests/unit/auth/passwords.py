"""Users of HTTP Basic, and what they send."""

import base64

from argon2 import PasswordHasher

# As cheap as it may be: what is tried is not how long it takes.
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)

USERS = {
    "alice": CHEAP.hash("wonder:land"),
    "bob": CHEAP.hash("Ünïcode"),
    "broken": "$argon2id$nonsense",
}


def basic_header(name: str, password: str) -> tuple[str, str]:
    """The header by which a user says who they are."""
    return "Authorization", "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
