"""Push configs and webhook requests: their printed form hides their secrets."""

from collections.abc import Callable

import pytest
from rich.pretty import pretty_repr

from aion_core.engine.push_config import PushConfig
from aion_core.push.request import WebhookRequest

CONFIG = PushConfig("config-1", "https://hooks/?key=hidden-1", "hidden-2", "Bearer", "hidden-3", ("hidden-4",))
REQUEST = WebhookRequest({"Authorization": "Bearer hidden-5"}, b"hidden-6")


@pytest.mark.parametrize("text", [repr, str, pretty_repr])
def test_repr_of_push_records_contains_no_secrets(text: Callable[[object], str]) -> None:
    """Print them by `repr` and by `rich`, which prints local variables of a traceback in its own form."""
    assert "config-1" in text(CONFIG)
    assert "hidden" not in text(CONFIG) + text(REQUEST)
