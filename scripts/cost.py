"""Cost model: run scenarios on the emulated stack, count their AWS requests, and multiply the counts by AWS's prices.

`make cost` writes the tables of docs/cost.md and the idle price for `aion deploy`.
"""

import asyncio
import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from aion_core.telemetry import Metric
from aion_tools.deploy import price as idle_price
from aion_tools.template.file import parsed
from scripts.cost_scenarios import SCENARIOS, Scenario, measured

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "cost.md"
PRICES = ROOT / "scripts" / "prices.toml"
IDLE = idle_price.PAGE
BEGIN, END = "<!-- counted: `make cost` writes what follows -->", "<!-- counted -->"
COUNTED = ("dynamodb", "write_units", "read_units", "sqs", "s3_writes", "s3_reads", "kms", "log_bytes")
PLATFORM_LOG_BYTES = 600
"""Bytes that Lambda logs about each invocation: its start and its report, as JSON."""
SWEEPS_A_MONTH = 60 * 24 * 30
# For each of the two queues, Lambda runs five parallel long polls of 20 s, even while the queue is empty.
POLLS_A_MONTH = 2 * 5 * 3 * SWEEPS_A_MONTH


def price(scenario: Scenario, counted: Counter[str], prices: dict[str, Any], *, half: bool = False) -> float:
    """Return the price of a million runs of a scenario, with its assumed Lambda usage; with `half`, that at 512 MB."""
    million = prices["million"]
    named = sum(counted[name] * million[name] for name in COUNTED if name in million)
    return float(
        named
        + scenario.api_requests * million["api_requests"]
        + scenario.invocations * million["invocations"]
        + scenario.invocations * PLATFORM_LOG_BYTES * million["log_bytes"]
        + (scenario.gb_seconds_at_512 if half else scenario.gb_seconds) * million["gb_seconds"]
    )


def tables(counted: dict[str, Counter[str]], prices: dict[str, Any]) -> str:
    """Return the Markdown tables of docs/cost.md: prices of the scenarios and of an idle month."""
    lines = [
        f"The tables use AWS's prices in {prices['region']} of {prices['date']}, in {prices['currency']} and without free tiers",
        f"({prices['source']}).",
        "The last two columns are the price of a million runs of the scenario, at 1024 MB and at 512 MB of memory.",
        "",
        "| scenario | DynamoDB requests | write units | read units | SQS | S3 | KMS | KB of logs | GB-s | 1024 MB | 512 MB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for scenario in SCENARIOS:
        one = counted[scenario.name]
        s3 = one["s3_writes"] + one["s3_reads"]
        mark = "" if scenario.exact else "about "
        cells = [scenario.name, *(f"{mark}{one[name]:g}" for name in ("dynamodb", "write_units", "read_units", "sqs"))]
        logs = f"{(one['log_bytes'] + scenario.invocations * PLATFORM_LOG_BYTES) / 1000:.1f}"
        costs = [f"{price(scenario, one, prices, half=half):,.0f}" for half in (False, True)]
        lines.append(
            f"| {' | '.join([*cells, f'{s3:g}', str(one['kms']), logs, f'{scenario.gb_seconds:g}', *costs])} |"
        )
    return "\n".join([*lines, "", *idle(counted, prices), "", *break_even(counted, prices)])


def break_even(counted: dict[str, Counter[str]], prices: dict[str, Any]) -> list[str]:
    """Return the lines of the Markdown table with the numbers of turns a month at which two containers cost as much."""
    containers = prices["containers"]
    fixed = sum(idle_rows(counted, prices).values()) + (len(Metric) - 2) * prices["month"]["metric"]
    lines = [
        f"Two small containers cost about {sum(containers.values()):.0f} {prices['currency']} a month, whatever they do:",
        ", ".join(f"{name} {cost:.0f}" for name, cost in containers.items()) + ".",
        f"A deployment with requests costs {fixed:.2f} plus its turns, because it reports {len(Metric) - 2} more custom metrics than an idle one. It costs as much as",
        "the containers at:",
        "",
        "| turns a month | 1024 MB | 512 MB |",
        "| --- | --- | --- |",
    ]
    for name, scenario in zip(("blocking", "of 100 chunks in 5 s, streamed"), SCENARIOS, strict=False):
        turns = [
            (sum(containers.values()) - fixed) * 1e6 / price(scenario, counted[scenario.name], prices, half=half)
            for half in (False, True)
        ]
        lines.append(f"| {name} | {' | '.join(f'{round(each, -4):,.0f}' for each in turns)} |")
    return lines


def monthly_resources() -> Counter[str]:
    """Count the template's resources with a monthly price, by kind of resource."""
    # Begin with two metrics, which the sweep emits each minute. They cost a monthly price without any request.
    made = Counter(keys=0, alarmed=0, metrics=2, dashboards=0)
    for path in (ROOT / "template.yaml", *sorted((ROOT / "infra").glob("*.yaml"))):
        for resource in (parsed(path.read_text(encoding="utf-8")).get("Resources") or {}).values():
            match resource["Type"]:
                case "AWS::KMS::Key":
                    made["keys"] += 1
                case "AWS::CloudWatch::Dashboard":
                    made["dashboards"] += 1
                case "AWS::CloudWatch::Alarm":
                    read = [each for each in resource["Properties"].get("Metrics", []) if "MetricStat" in each]
                    made["alarmed"] += len(read) or 1
    return made


def idle_rows(counted: dict[str, Counter[str]], prices: dict[str, Any]) -> dict[str, float]:
    """Return the prices of a month without requests, by the name of the billed item."""
    sweep, month, million, made = SCENARIOS[-1], prices["month"], prices["million"], monthly_resources()
    swept = price(sweep, counted[sweep.name], prices) * SWEEPS_A_MONTH / 1e6
    return {
        f"sweeps, {SWEEPS_A_MONTH:,}": swept,
        f"Lambda's polls of the two queues, {POLLS_A_MONTH:,}": POLLS_A_MONTH * million["sqs"] / 1e6,
        f"KMS keys, {made['keys']} (one less with CredentialsKey, one less with AlarmTopic)": made["keys"]
        * month["key"],
        f"alarm metrics, {made['alarmed']}": made["alarmed"] * month["alarm"],
        f"custom metrics of the sweep, {made['metrics']} ({len(Metric)} once there are requests and webhooks)": made[
            "metrics"
        ]
        * month["metric"],
        f"dashboards, {made['dashboards']} (the first three of an account are free)": made["dashboards"]
        * month["dashboard"],
    }


def idle(counted: dict[str, Counter[str]], prices: dict[str, Any]) -> list[str]:
    """Return the lines of the Markdown table with the price of a month without requests."""
    rows = idle_rows(counted, prices)
    total = f"| **together** | **{sum(rows.values()):.2f}** |"
    return [
        f"| item of an idle month | {prices['currency']} |",
        "| --- | --- |",
        *(f"| {name} | {cost:.2f} |" for name, cost in rows.items()),
        total,
    ]


def idle_data(counted: dict[str, Counter[str]], prices: dict[str, Any]) -> str:
    """Return the price of an idle month as JSON for `aion deploy`."""
    rows = {name: round(cost, 2) for name, cost in idle_rows(counted, prices).items()}
    about = {name: prices[name] for name in ("date", "region", "currency")}
    data = {**about, "together": round(sum(idle_rows(counted, prices).values()), 2), "rows": rows}
    # Price to subtract if the operator sets one of these two parameters: the stack then creates one KMS key less.
    data["less"] = dict.fromkeys(("CredentialsKey", "AlarmTopic"), prices["month"]["key"])
    return json.dumps(data, indent=2) + "\n"


def main() -> None:
    """Write the page docs/cost.md and the idle price."""
    prices = tomllib.loads(PRICES.read_text(encoding="utf-8"))
    counted = asyncio.run(measured())
    head, _, tail = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n\n{tables(counted, prices)}\n\n{END}{tail.partition(END)[2]}", encoding="utf-8")
    IDLE.write_text(idle_data(counted, prices), encoding="utf-8")


if __name__ == "__main__":
    main()
