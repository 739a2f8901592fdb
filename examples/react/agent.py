"""LangChain agent that converts amounts of money with two tools (ReAct).

MODEL names a real model, such as openai:gpt-5-mini. Without it a scripted model needs no key and no network.
"""

import os

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.tools import tool
from scripted_converter import ScriptedConverter

PER_EURO = {"EUR": 1.0, "USD": 1.25, "GBP": 0.8, "JPY": 180.0}


@tool
def exchange_rate(base: str, target: str) -> str:
    """Return the price of one unit of a currency in another one. Currencies are ISO 4217 codes, such as USD."""
    unknown = [code for code in (base, target) if code not in PER_EURO]
    return f"There is no rate for {unknown[0]}." if unknown else f"{PER_EURO[target] / PER_EURO[base]:g}"


@tool
def multiply(a: float, b: float) -> str:
    """Multiply two numbers."""
    return f"{a * b:g}"


name = os.environ.get("MODEL")
graph = create_agent(
    init_chat_model(name) if name else ScriptedConverter(),
    [exchange_rate, multiply],
    system_prompt="You convert amounts of money. Take rates from exchange_rate, and calculate with multiply.",
)
