"""Operations that one gateway passes on to another, which has the folder that they are about. They are judged again
there by the rights of the same caller, and are audited there."""

from typing import Any

from gatepost.core import log
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused, SetupError, Unavailable
from gatepost.core.records import replace
from gatepost.flow.gateways.commands import Answer, GatewayCommands
from gatepost.serve.control.contract import OPERATIONS, OperationDeps, find_operation
from gatepost.store.gateways.commands import CommandKind

WITHIN_S = 45.0  # for which an answer is waited for; below what clients of the API wait
INSIDE = "something went wrong inside; its own `gatepost logs` has it"
# Error classes and the attributes that are passed on. The first that fits counts; of any other only the text is passed.
_FACTS: tuple[tuple[type[GatepostError], tuple[str, ...]], ...] = (
    (Invalid, ("target", "why")),
    (Refused, ("caller", "action", "target", "why")),
    (NotFound, ("kind", "name", "hint")),
    (Unavailable, ("what", "why")),
)

_log = log.get("control")


class OperationPasser:
    def __init__(self, commands: GatewayCommands) -> None:
        self._commands = commands

    async def __call__(self, deps: OperationDeps, gateway: str, name: str, given: dict[str, Any]) -> Any:
        """Return what it answers there, as JSON; raises what it refuses there."""
        asked = {
            "name": name,
            "given": given,
            "caller": deps.caller,
            "via": deps.via,
            "scopes": deps.scopes,
            "login": deps.login,
        }
        answer = await self._commands.ask_gateway(CommandKind.OPERATE, gateway, asked, WITHIN_S)
        if "error" in answer:
            raise parse_error(answer["error"], gateway)
        return answer["result"]


async def run_passed(operation_deps: OperationDeps, asked: Answer) -> Answer:
    """Run here what another gateway passes on. It is not passed on a second time: the folder may just have moved."""
    name = str(asked["name"])
    scopes = asked.get("scopes")
    deps = replace(
        operation_deps,
        caller=str(asked["caller"]),
        via=str(asked["via"]),
        scopes=tuple(map(str, scopes)) if scopes is not None else None,
        login=str(asked["login"]),
        pass_on=None,
    )
    try:
        return {"result": await (await find_operation(OPERATIONS, name))(deps, asked["given"])}
    except GatepostError as error:
        return {"error": render_error(error)}
    except Exception as error:  # noqa: BLE001  whoever asked is answered, and this gateway goes on
        _log.error("an operation of another gateway failed", operation=name, error=repr(error))
        return {"error": {"kind": "", "facts": [INSIDE]}}


def render_error(error: GatepostError) -> dict[str, Any]:
    for kind, facts in _FACTS:
        if isinstance(error, kind):
            return {"kind": kind.__name__, "facts": [str(getattr(error, each)) for each in facts]}
    return {"kind": "", "facts": [str(error)]}


def parse_error(found: dict[str, Any], gateway: str) -> GatepostError:
    kind = next((kind for kind, _ in _FACTS if kind.__name__ == found["kind"]), None)
    if kind is None:
        return SetupError(f"gateway {gateway}: {found['facts'][0]}")
    return kind(*found["facts"])
