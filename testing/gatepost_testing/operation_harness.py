"""A gateway's operations, called as the control API calls them, without a socket."""

from typing import Any

from gatepost.app import Gateway
from gatepost.core.records import replace
from gatepost.serve.control.contract import OPERATIONS, OperationDeps


class OperationHarness:
    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.deps = OperationDeps(
            home=gateway.home,
            store=gateway.store,
            clock=gateway.clock,
            config=gateway.config,
            events=gateway.events,
            extra={"channels": gateway.supervisor},
        )

    async def run(self, name: str, /, caller: str = "operator", **args: Any) -> Any:
        return await OPERATIONS[name](replace(self.deps, caller=caller), args)
