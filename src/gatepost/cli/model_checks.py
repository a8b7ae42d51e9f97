"""The doctor's question to the model endpoints: there, and is the key taken? Nothing is spent."""

import asyncio
from collections.abc import Iterator
from typing import Any

from gatepost.cli.operation_runner import control_of
from gatepost.core import home_lock
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.serve.health.findings import Finding
from gatepost.store.place import get_place
from gatepost.store.readonly import read_snapshot

ASK_S = 30.0


def check_models(home: Home, config: Config) -> Iterator[Finding]:
    """A running gateway asks with its keys. Without one nobody shows a key, and only the way there is looked at."""
    if not get_place(home, config).exists():
        return
    try:
        if home_lock.find_holder(home) is not None:
            found = control_of(home).post("/v1/ops/models.check", {}, ASK_S)["result"]
        else:
            found = _check_without_keys(home, config)
    except GatepostError as error:
        yield Finding("warn", "models", f"the endpoints could not be asked: {error}", "`gatepost logs` may say why")
        return
    for each in found:
        yield _finding(each)


def _check_without_keys(home: Home, config: Config) -> list[dict[str, Any]]:
    from gatepost.core.records import asdict
    from gatepost.serve.control.operations.models import check_endpoints, list_model_uses

    later = "whether it takes the key is asked while the gateway runs"
    uses = read_snapshot(get_place(home, config), list_model_uses, home, config)
    return [asdict(each) for each in asyncio.run(check_endpoints([(use, later) for use in uses]))]


def _finding(found: dict[str, Any]) -> Finding:
    groups, agent = ", ".join(found["folders"][:5]), found["provider"]
    who = f"{groups}{' …' if len(found['folders']) > 5 else ''}: {agent}"
    if not found["reachable"]:
        way = (
            f"is it the right address, and is there a way to it? gatepost connect {agent} --base-url URL names another"
        )
        return Finding("warn", "models", f"{who} cannot reach {found['url']}: {found['reason']}", way)
    if found["accepted"] is False and found["key"]:
        way = f"gatepost connect {agent} --folder {found['folders'][0]} --key-stdin < key.txt"
        return Finding("fail", "models", f"{found['url']} refuses the key of {who} ({found['reason']})", way)
    if found["accepted"] is False:
        way = f"gatepost connect {agent} --folder {found['folders'][0]} --key-stdin < key.txt"
        return Finding("fail", "models", f"{found['url']} wants a key, and {who} has none for it", way)
    if found["accepted"]:
        what = "answers and takes the key" if found["key"] else "answers without a key"
        return Finding("ok", "models", f"{who}: {found['url']} {what}")
    return Finding("ok", "models", f"{who}: {found['url']} can be reached; {found['reason']}")
