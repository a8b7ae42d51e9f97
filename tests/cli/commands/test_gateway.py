"""`gatepost gateway` on a store that is a file: there is one gateway, and nothing to drain."""

from collections.abc import Callable
from typing import Any

from gatepost.core.home import Home

Run = Callable[..., Any]


def test_a_store_of_one_machine_says_so_in_one_line(home: Home, run: Run) -> None:
    shown = run("gateway", "list")
    assert shown.code == 0
    assert shown.out.splitlines() == [
        "this store is a file of one machine, so it has one gateway; docs/scale.md tells how several share one"
    ]
    assert run("gateway", "list", "--json").json == []
    refused = run("gateway", "drain", "a")
    assert refused.code != 0 and "gatepost gateway list" in refused.err
