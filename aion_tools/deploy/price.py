"""Price of a month in which a deployment gets no requests, computed like the prices in docs/cost.md (`make cost`)."""

import json
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).with_name("idle_price.json")
"""File with the computed price, written by scripts/cost.py together with docs/cost.md."""


def idle(parameters: Mapping[str, str]) -> str:
    """Return the price of a month without requests as text, for a stack with these template parameters."""
    counted = json.loads(PAGE.read_text(encoding="utf-8"))
    spared = sum(cost for name, cost in counted["less"].items() if parameters.get(name))
    costs = counted["together"] - spared
    return (
        f"about {costs:.2f} {counted['currency']} a month without requests; requests cost extra "
        f"({counted['region']}, prices of {counted['date']}, without free tiers)"
    )
