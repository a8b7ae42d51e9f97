"""Put this beside `toy.py`, and run it with pytest."""

import asyncio

import toy  # noqa: F401  it registers its channel

from gatepost_testing.channel_suite import list_failures, render_table, run_suite
from gatepost_testing.platforms.toy import ToyPlatform


def test_toy_passes_the_suite() -> None:
    grades = asyncio.run(run_suite(ToyPlatform))
    assert list_failures(grades) == [], render_table({"toy": grades})
