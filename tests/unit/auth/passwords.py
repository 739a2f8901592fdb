"""Users of HTTP Basic and their headers."""

import base64

from argon2 import PasswordHasher

# Cheap hashes: the tests do not measure their time.
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)

USERS = {
    "alice": CHEAP.hash("wonder:land"),
    "bob": CHEAP.hash("Ünïcode"),
    "broken": "$argon2id$nonsense",
}


def basic_header(name: str, password: str) -> tuple[str, str]:
    """Return the header of a user's name and password."""
    return "Authorization", "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
