"""Models: whether the endpoints that groups use can be reached and take their keys. Nothing is spent."""

import asyncio
from collections.abc import Iterable

from msgspec import Struct

from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.settings import Config
from gatepost.egress.contract import Spender
from gatepost.egress.endpoints import EndpointVerdict, base_in_force, probe_endpoint
from gatepost.egress.http import HttpRefusal
from gatepost.egress.model_proxy import find_key
from gatepost.egress.upstream import NO_KEY, Upstream, VendorBaseUrl, VendorKey
from gatepost.flow.group_egress import SpenderSecrets
from gatepost.flow.sessions.sandbox.effective_group import load_effective_group
from gatepost.flow.sessions.sandbox.provider_specs import find_spec
from gatepost.inside.provider_spec import ProviderSpec
from gatepost.serve.control.arguments.agents.models import CheckModelsArgs, EndpointCheck
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.store.port import Db
from gatepost.store.rights.secrets import SecretReader
from gatepost.store.sessions import groups
from gatepost.store.sessions.groups import Group

MOST_AT_ONCE = 8
PURPOSE = "doctor"


class ModelUse(Struct, frozen=True):
    """A group that asks a vendor's models."""

    folder: str
    provider: str
    vendor: str
    base: VendorBaseUrl


def list_model_uses(db: Db, home: Home, config: Config) -> list[ModelUse]:
    """List every group on a real agent whose vendor is known. ACP programs are left out: their own files name the
    model."""
    found = []
    for each in groups.list_all(db):
        run = load_effective_group(db, config, each.folder)
        known = find_spec(home, run.provider) if run is not None else None
        if run is None or known is None or not known.vendor or known.command_options:
            continue
        vendor = _get_vendor(known, run)
        base = base_in_force(db, home, each.folder, vendor, run.options)
        found.append(ModelUse(each.folder, known.name, vendor, base))
    return found


def _get_vendor(known: ProviderSpec, run: Group) -> str:
    return "anthropic" if known.any_vendor and run.model.startswith("claude") else known.vendor


async def check_endpoints(found: Iterable[tuple[ModelUse, VendorKey | str]]) -> list[EndpointCheck]:
    """Each endpoint once for each key. A str in the place of a key: why there is none."""
    asked: dict[tuple[str, str, str], tuple[list[ModelUse], VendorKey | str]] = {}
    for use, key in found:
        mark = key if isinstance(key, str) else f"key {key.value}"
        asked.setdefault((use.vendor, use.base.url, mark), ([], key))[0].append(use)
    upstream, gate = Upstream(), asyncio.Semaphore(MOST_AT_ONCE)

    async def one(those: list[ModelUse], key: VendorKey | str) -> EndpointCheck:
        use = those[0]
        async with gate:
            shown = NO_KEY if isinstance(key, str) else key
            verdict = await probe_endpoint(upstream, use.vendor, use.base, shown)
        if isinstance(key, str):
            verdict = EndpointVerdict(verdict.reachable, None, key if verdict.reachable else verdict.reason)
        folders = tuple(each.folder for each in those)
        return EndpointCheck(
            folders, use.provider, use.vendor, use.base.url, *_verdict_fields(verdict, shown), verdict.reason
        )

    try:
        return list(await asyncio.gather(*(one(*each) for each in asked.values())))
    finally:
        await upstream.close()


def _verdict_fields(verdict: EndpointVerdict, shown: VendorKey) -> tuple[bool, bool | None, bool]:
    return verdict.reachable, verdict.accepted, bool(shown.value)


@operation
async def check_models(deps: OperationDeps, args: CheckModelsArgs) -> list[EndpointCheck]:
    """The keys are used as for a turn of the group that nobody in particular began, and recorded as used."""
    keys = SpenderSecrets(deps.store, SecretReader(deps.store, Keyring(deps.home), deps.clock))
    found: list[tuple[ModelUse, VendorKey | str]] = []
    for use in await deps.store.read(list_model_uses, deps.home, deps.config):
        try:
            key: VendorKey | str = await find_key(keys, use.vendor, Spender(use.folder, "", None), use.base, PURPOSE)
        except HttpRefusal as no:
            key = no.reason
        except GatepostError as error:
            key = str(error)
        found.append((use, key))
    return await check_endpoints(found)
