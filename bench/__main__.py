"""`make bench`: measure the servers in alternation, and write docs/performance.md."""

import asyncio
import os
import platform
import statistics
from collections import defaultdict
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill

import click

from bench.scenarios import SCENARIOS, Figures, measure_cold, streams
from bench.servers import ROOT, Server, dev_server, server

NAMES = ("aion", "sdk", "floor")
Results = dict[str, dict[str, list[Figures]]]
"""Figures of each round, by scenario and server."""

ON_PAGE = (
    "cold start",
    "stream of 100 chunks in one burst",
    "stream of 1000 chunks in one burst",
    "stream of 100 chunks, one each 10 ms",
    "blocking send of 10 chunks",
    "SQLite: blocking send of 10 chunks",
    "SQLite: 16 sends at once",
    "SQLite: 200 turns of one context",
    "after all scenarios",
)
"""Scenarios shown in docs/performance.md. The terminal shows them all."""


@click.command()
@click.option("--rounds", default=5, show_default=True, help="Measurements of each scenario and server.")
@click.option("--only", default="", help="Measure only scenarios whose name contains this text.")
@click.option("--write", is_flag=True, help="Write docs/performance.md.")
def main(rounds: int, only: str, write: bool) -> None:
    """Measure this server, the official SDK's server and the bare Starlette app in alternation."""
    if write and only:
        raise click.UsageError("The page needs all scenarios: leave out --only or --write.")
    results = asyncio.run(_measure(rounds, only))
    click.echo(report(results, rounds))
    if write:
        path = ROOT / "docs/performance.md"
        head, mark, _ = path.read_text().partition("<!-- measured: `make bench` writes the rest -->\n")
        shown = {scenario: results[scenario] for scenario in ON_PAGE if scenario in results}
        path.write_text(f"{head}{mark}\n{_summary(results)}\n{report(shown, rounds)}")


async def _measure(rounds: int, only: str) -> Results:
    results: Results = defaultdict(lambda: defaultdict(list))
    if only in "cold start":
        for _ in range(rounds):
            for name in NAMES:
                results["cold start"][name].append(await measure_cold(name))
            click.echo("cold start", err=True)
    with ExitStack() as stack:
        servers = _servers(stack)
        for each in servers.values():
            await each.ready()
            await streams(100)(each)
        for scenario in SCENARIOS:
            if only not in scenario.name:
                continue
            for turn in range(rounds):
                # Begin each round with another server, so that a machine that slows down affects all servers equally.
                for place in range(len(scenario.servers)):
                    name = scenario.servers[(place + turn) % len(scenario.servers)]
                    results[scenario.name][name].append(await scenario.run(servers[scenario.store, name]))
            click.echo(scenario.name, err=True)
        if not only:
            _add_memory(results, servers)
    return results


def _servers(stack: ExitStack) -> dict[tuple[str, str], Server]:
    """Start the servers, named by store and server. Each one on SQLite has a folder of its own."""

    def folder() -> Path:
        return Path(stack.enter_context(TemporaryDirectory()))

    memory = {("memory", name): stack.enter_context(server(name)) for name in NAMES}
    sqlite = {("sqlite", name): stack.enter_context(server(name, folder())) for name in NAMES}
    dev = {("dev", name): started for (_, name), started in sqlite.items()}
    return memory | sqlite | dev | {("dev", "aion"): stack.enter_context(dev_server(folder()))}


def _add_memory(results: Results, servers: dict[tuple[str, str], Server]) -> None:
    for name in NAMES:
        results["after all scenarios"][name].append({"peak MiB": servers["memory", name].peak_memory})
        results["SQLite: after all scenarios"][name].append({"peak MiB": servers["sqlite", name].peak_memory})


def _summary(results: Results) -> str:
    """Return the sentences that open the figures of the page."""

    def ratio(scenario: str, figure: str, to: str) -> float:
        return _ratio(results[scenario], figure, to) or 0.0

    def span(to: str) -> str:
        found = sorted(ratio(each, "CPU µs a chunk", to) for each in ON_PAGE if each.startswith("stream"))
        return f"{found[0]:.1f} to {found[-1]:.1f}"

    send = "blocking send of 10 chunks"
    sent = {to: ratio(send, "CPU ms a send", to) for to in ("sdk", "floor")}
    growth = ratio("SQLite: 200 turns of one context", "CPU µs more in each turn", "floor")
    sentences = (
        f"**A blocking send** takes {sent['sdk']:.2f} times the CPU time of the A2A SDK's server, and {sent['floor']:.1f} times "
        f"that of the bare app. On SQLite it takes {ratio(f'SQLite: {send}', 'CPU ms a send', 'floor'):.1f} times that of the bare app.",
        f"**A streamed chunk** takes {span('sdk')} times that of the SDK's server, and {span('floor')} times that of the bare app.",
        f"**A turn's cost grows** with its conversation's length {growth:.1f} times as fast as with LangGraph's own checkpointer.",
    )
    return "".join(f"{fill(f'- {each}', 150, subsequent_indent='  ')}\n" for each in sentences)


def report(results: Results, rounds: int) -> str:
    """Return the report as Markdown tables."""
    cpus = os.cpu_count()
    lines = [
        f"Measured on {datetime.now(UTC):%Y-%m-%d} with Python {platform.python_version()} on {cpus} cores, "
        f"load {os.getloadavg()[0]:.1f}; a2a-sdk {version('a2a-sdk')}, langgraph {version('langgraph')}. "
        f"Medians of {rounds} alternating rounds.",
        "",
        "| scenario | figure | aion-lambda | ratio to the SDK's server | ratio to the bare app |",
        "| --- | --- | --- | --- | --- |",
    ]
    for scenario, by_server in results.items():
        for figure in next(iter(by_server.values()))[0]:
            lines.append(_row(scenario, figure, by_server))
    return "\n".join(lines) + "\n"


def _row(scenario: str, figure: str, by_server: dict[str, list[Figures]]) -> str:
    cells = [scenario, figure, f"{statistics.median(each[figure] for each in by_server['aion']):.4g}"]
    ratios = [_ratio(by_server, figure, name) for name in ("sdk", "floor")]
    return f"| {' | '.join([*cells, *('' if ratio is None else f'{ratio:.2f}' for ratio in ratios)])} |"


def _ratio(by_server: dict[str, list[Figures]], figure: str, to: str) -> float | None:
    """Return the median of the rounds' ratios of this server to another; None if the other was not measured."""
    pairs = zip(by_server["aion"], by_server.get(to, []), strict=False)
    ratios = [our[figure] / their[figure] for our, their in pairs if their[figure]]
    return statistics.median(ratios) if ratios else None


if __name__ == "__main__":
    main()
