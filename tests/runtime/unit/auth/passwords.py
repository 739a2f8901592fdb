"""Users of HTTP Basic and their headers."""

import base64

from argon2 import PasswordHasher

# Use cheap hashes, because the tests do not measure the time of hashing.
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)

USERS = {
    "alice": CHEAP.hash("wonder:land"),
    "bob": CHEAP.hash("Ünïcode"),
    "broken": "$argon2id$nonsense",
}


def basic_header(name: str, password: str) -> tuple[str, str]:
    """Return the header of a user's name and password."""
    return "Authorization", "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
