"""Price of an idle month, as printed after a deployment."""

import re

from aion_tools.deploy import price
from aion_tools.shipped import shipped


def test_idle_price_equals_cost_page() -> None:
    page = (shipped() / "docs" / "cost.md").read_text(encoding="utf-8")
    together = re.search(r"\| \*\*together\*\* \| \*\*([\d.]+)\*\* \|", page)
    assert together is not None
    assert price.idle({}).startswith(f"about {together[1]} USD a month")


def test_existing_kms_key_and_alarm_topic_lower_idle_price() -> None:
    def costs(**parameters: str) -> float:
        return float(price.idle(parameters).split()[1])

    assert round(costs() - costs(CredentialsKey="arn:…"), 2) == 1
    assert round(costs() - costs(CredentialsKey="arn:…", AlarmTopic="arn:…"), 2) == 2
