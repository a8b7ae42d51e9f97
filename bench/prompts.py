"""What a turn of a new agent costs before a word is said: bytes and tokens are paid at every turn."""

import json
import subprocess
import sys
import tempfile
from typing import Any

from measure import Figure, at_most

MOST_TOKENS = 3000  # of a model behind an API
MOST_BYTES = 10_000  # of its tools


def figures() -> list[Figure]:
    cost = _measure()
    tools = sum(each["size"] for each in cost["parts"] if each["section"] == "tool")
    return [
        at_most("prompt_tokens", cost["tokens"], "", MOST_TOKENS, MOST_TOKENS),
        at_most("tools_bytes", tools, "B", MOST_BYTES, MOST_BYTES),
    ]


def _measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as home:
        _run(home, "group", "add", "acme", "--provider", "anthropic")
        cost: dict[str, Any] = json.loads(_run(home, "prompt", "show", "acme", "--json"))
        return cost


def _run(home: str, *words: str) -> str:
    command = [sys.executable, "-m", "gatepost", *words, "--home", home]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
