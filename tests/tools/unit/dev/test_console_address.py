"""Address of a task in the console."""

from aion_tools.dev.console_address import console_address


def test_address_keeps_odd_ids_apart() -> None:
    address = console_address("http://127.0.0.1:8000", "trip", "a b&task=x", "t/1#2")
    assert address == "http://127.0.0.1:8000/agents/trip/#context=a+b%26task%3Dx&task=t%2F1%232"
