"""The price of an idle month, as `make cost` has counted it for docs/cost.md."""

import json
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).with_name("idle_price.json")
"""Written by infra/cost.py, with the page."""


def idle(parameters: Mapping[str, str]) -> str:
    """Return what a stack with these parameters costs in a month in which nobody asks for anything, in a sentence."""
    counted = json.loads(PAGE.read_text(encoding="utf-8"))
    spared = sum(cost for name, cost in counted["less"].items() if parameters.get(name))
    costs = counted["together"] - spared
    return (
        f"about {costs:.2f} {counted['currency']} a month while nobody calls, and each call more "
        f"({counted['region']}, prices of {counted['date']}, without free tiers)"
    )
