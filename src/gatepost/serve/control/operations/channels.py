"""Channels: list, add, set, remove, restart and test their instances; and tokens for programs that are adapters.

A secret's value comes in and never goes out. A token is shown once; its channel is made if there is none.
"""

import asyncio
import shutil
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from gatepost.channels.contract import CHANNELS, BotIdentity, ChannelKind, ChannelState, EndReason, SpecOrigin
from gatepost.core import ids, settings
from gatepost.core.errors import Invalid, NotFound, SetupError, did_you_mean
from gatepost.core.keyring import Keyring
from gatepost.core.records import replace
from gatepost.core.settings import Config, Setting
from gatepost.flow import channel_specs
from gatepost.flow.channel_check import check_channel, check_new, check_spec
from gatepost.flow.channel_health import ChannelReport
from gatepost.flow.channel_specs import BrokenSpec, ChannelSpec, get_last_name
from gatepost.flow.channel_supervisor import ChannelSupervisor, ChannelSurroundings, get_folder
from gatepost.flow.pairing import get_page_url
from gatepost.serve.control.arguments.channels import (
    AddChannelArgs,
    AddChannelTokenArgs,
    AskedSetting,
    ChannelAnswer,
    ChannelKindItem,
    ChannelListItem,
    ChannelRemoval,
    ChannelTokenView,
    CheckChannelArgs,
    ListChannelKindsArgs,
    ListChannelsArgs,
    RemoveChannelArgs,
    RestartChannelArgs,
    SetChannelArgs,
)
from gatepost.serve.control.channel_changes import (
    change_spec,
    check_complete,
    check_new_name,
    check_other_bots,
    check_secrets,
    render_after,
)
from gatepost.serve.control.contract import OperationDeps, operation, run_within
from gatepost.store.engine.readonly import list_waiting_instances
from gatepost.store.port import Db
from gatepost.store.rights import tokens
from gatepost.store.rights.secrets import SecretReader
from gatepost.store.rights.tokens import NewToken, TokenKind
from gatepost.store.rooms import channel_instances
from gatepost.store.rooms.channel_instances import StoredChannel

SUPERVISOR = "channels"  # in `OperationDeps.extra`, while a gateway runs
SETTLE_S, LOOK_S = 3.0, 0.02
REMOTE = "remote"  # the kind
LONGEST_TEXT = 1_000_000
SHORTEST_TEXT = 64  # a code block cannot be split below that


def find_supervisor(deps: OperationDeps) -> ChannelSupervisor | None:
    """None: no gateway runs."""
    found: ChannelSupervisor | None = deps.extra.get(SUPERVISOR)
    return found


def _get_surroundings(deps: OperationDeps) -> ChannelSurroundings:
    """A running gateway has its configuration; else the file is read, with what the channels declare."""
    channel_specs.find_kinds(deps.home)
    config = deps.config
    if find_supervisor(deps) is None:
        channel_specs.load_set_kinds(deps.home)
        config = settings.load_declared(deps.home.path)
    reader = SecretReader(deps.store, Keyring(deps.home), deps.clock)
    return ChannelSurroundings(home=deps.home, config=config, store=deps.store, clock=deps.clock, secrets=reader)


async def _list_specs(surroundings: ChannelSurroundings) -> tuple[list[ChannelSpec], list[BrokenSpec]]:
    return channel_specs.list_specs(surroundings.config, await surroundings.store.read(channel_instances.list_all))


def _list_names(specs: Iterable[ChannelSpec], broken: Iterable[BrokenSpec]) -> list[str]:
    return [*(each.instance for each in specs), *(each.instance for each in broken)]


async def _find_spec(surroundings: ChannelSurroundings, instance: str) -> ChannelSpec:
    specs, broken = await _list_specs(surroundings)
    for each in broken:
        if each.instance == instance:
            raise each.error
    known = {each.instance: each for each in specs}
    if instance not in known:
        raise NotFound("channel", instance, f"`gatepost channel list` shows them{did_you_mean(instance, known)}")
    if known[instance].origin is SpecOrigin.ALWAYS:
        raise Invalid("instance", f"{instance} is part of the gateway: it is always on, with nothing to set or to test")
    return known[instance]


@operation
async def list_channels(deps: OperationDeps, args: ListChannelsArgs) -> list[ChannelListItem]:
    surroundings, supervisor = _get_surroundings(deps), find_supervisor(deps)
    specs, broken = await _list_specs(surroundings)
    waiting = dict(await deps.store.read(list_waiting_instances))
    items = [_make_item(each, waiting.get(each.instance, 0)) for each in specs]
    items += [_make_broken_item(each, waiting.get(each.instance, 0)) for each in broken]
    reports = {each.instance: each for each in supervisor.list_reports()} if supervisor is not None else {}
    return [_add_report(each, reports.get(each.instance)) for each in sorted(items, key=lambda item: item.instance)]


def _make_item(spec: ChannelSpec, waiting: int) -> ChannelListItem:
    return ChannelListItem(
        instance=spec.instance,
        kind=spec.kind.name,
        origin=spec.origin,
        state=None if spec.is_on else ChannelState.OFF,
        tested_against=spec.kind.tested_against,
        waiting=waiting,
        settings=channel_specs.render_values(spec.kind, spec.values),
    )


def _make_broken_item(each: BrokenSpec, waiting: int) -> ChannelListItem:
    return ChannelListItem(
        instance=each.instance,
        kind=each.kind_name,
        origin=SpecOrigin.STORE,
        state=ChannelState.ENDED,
        error=str(each.error),
        reason=EndReason.SETTING,
        waiting=waiting,
    )


def _add_report(item: ChannelListItem, report: ChannelReport | None) -> ChannelListItem:
    if report is None:
        return item
    taken = ("state", "since_at", "error", "remedy", "reason", "next_at", "beat_at", "event_at", "restarts", "note")
    return replace(item, **{name: getattr(report, name) for name in taken})


@operation
async def list_kinds(deps: OperationDeps, args: ListChannelKindsArgs) -> list[ChannelKindItem]:
    await asyncio.to_thread(channel_specs.load_kinds, deps.home)
    return [_make_kind_item(kind) for _, kind in CHANNELS.items() if not kind.always]


def _make_kind_item(kind: ChannelKind) -> ChannelKindItem:
    return ChannelKindItem(
        name=kind.name,
        title=kind.title or kind.name,
        before=kind.guide.before,
        asks=[_make_asked(kind, each) for each in kind.guide.ask],
        settings=[_make_asked(kind, each) for each in kind.settings],
        tested_against=kind.tested_against,
        extra=kind.extra,
    )


def _make_asked(kind: ChannelKind, each: Setting[Any]) -> AskedSetting:
    default = msgspec.to_builtins(each.default)
    is_needed = each in kind.guide.ask and each not in kind.guide.optional and default == ""
    return AskedSetting(
        name=get_last_name(each),
        help=each.help,
        default=default,
        choices=each.choices,
        is_secret=each.secret,
        is_optional=not is_needed,
    )


@operation
async def add(deps: OperationDeps, args: AddChannelArgs) -> ChannelAnswer:
    surroundings = _get_surroundings(deps)
    kind = channel_specs.get_kind(args.kind, "channel add")
    instance = check_new_name(args.instance or kind.name, kind)
    spec = ChannelSpec(
        instance=instance,
        kind=kind,
        origin=SpecOrigin.STORE,
        values=channel_specs.parse_values(kind, args.settings, f"the channel {instance}"),
    )
    specs, broken = await _list_specs(surroundings)
    if instance in _list_names(specs, broken):
        raise Invalid("name", f"there is a channel {instance!r}; --name gives this one another name")
    channel_specs.check_secret_names([*specs, spec])
    check_secrets(kind, args.secrets)
    await check_complete(surroundings, spec, args.secrets)

    async def check_identity(found: BotIdentity | None) -> None:
        await check_other_bots(surroundings, find_supervisor(deps), spec, found, specs)

    identity = await check_new(surroundings, spec, args.secrets, check_identity)

    def find_new(db: Db) -> ChannelSpec:
        if channel_instances.get(db, instance) is not None:
            raise Invalid("name", f"there is a channel {instance!r}; --name gives this one another name")
        return spec

    await _write(deps, instance, args.secrets, find_new)
    return await _start(deps, surroundings, spec, identity)


async def _write(
    deps: OperationDeps, instance: str, secrets: Mapping[str, str], find_spec: Callable[[Db], ChannelSpec]
) -> ChannelSpec:
    """Settings and secrets in one transaction. One of the file has its secrets here, and nothing else. `find_spec`: as
    it is to be, from what the store says now: asking the platform took a while."""
    keyring, now = Keyring(deps.home), deps.clock.now()

    def put(db: Db) -> ChannelSpec:
        spec = find_spec(db)
        if spec.origin is SpecOrigin.STORE:
            values = channel_specs.render_values(spec.kind, spec.values)
            channel_instances.put(db, StoredChannel(instance, spec.kind.name, values, spec.is_on, now, deps.caller))
        channel_instances.put_secrets(db, keyring, instance, secrets, now)
        return spec

    return await deps.write(put, instance=instance, secrets_set=sorted(secrets))


async def _start(
    deps: OperationDeps, surroundings: ChannelSurroundings, spec: ChannelSpec, identity: BotIdentity | None
) -> ChannelAnswer:
    supervisor = find_supervisor(deps)
    if supervisor is not None:
        await supervisor.restart(spec.instance)  # as it is in the store by now
    return _make_answer(surroundings.config, spec, identity, is_running=supervisor is not None and spec.is_on)


def _make_answer(config: Config, spec: ChannelSpec, identity: BotIdentity | None, *, is_running: bool) -> ChannelAnswer:
    bot = identity or BotIdentity(name="")
    return ChannelAnswer(
        instance=spec.instance,
        kind=spec.kind.name,
        is_checked=identity is not None,
        is_running=is_running,
        bot=bot.name,
        link=bot.link,
        missing=bot.missing,
        notes=bot.notes,
        after=render_after(spec.kind.guide.after, spec.instance, config),
    )


@operation
async def set_channel(deps: OperationDeps, args: SetChannelArgs) -> ChannelAnswer:
    surroundings = _get_surroundings(deps)
    spec = change_spec(await _find_spec(surroundings, args.instance), args)
    check_secrets(spec.kind, args.secrets)
    identity = None
    if spec.is_on:
        await check_complete(surroundings, spec, args.secrets)
        identity = await check_spec(surroundings, spec, args.secrets)

    def find_current(db: Db) -> ChannelSpec:
        """Others may have changed or removed it while its platform was asked: theirs stays, ours is added."""
        if spec.origin is not SpecOrigin.STORE:
            return spec
        row = channel_instances.get(db, spec.instance)
        if row is None or row.kind != spec.kind.name:
            raise NotFound("channel", spec.instance, "somebody removed it meanwhile")
        return change_spec(channel_specs.parse_stored(row), args)

    written = await _write(deps, spec.instance, args.secrets, find_current)
    return await _start(deps, surroundings, written, identity)


@operation
async def remove(deps: OperationDeps, args: RemoveChannelArgs) -> ChannelRemoval:
    surroundings, supervisor, instance = _get_surroundings(deps), find_supervisor(deps), args.instance
    specs, broken = await _list_specs(surroundings)
    others = [each for each in _list_names(specs, broken) if each != instance]
    _check_removable(instance, specs, broken)
    if supervisor is not None:
        await supervisor.stop(instance)

    def delete(db: Db) -> ChannelRemoval:
        names = channel_instances.list_secret_names(db, instance, others)
        tokens.revoke_adapters(db, instance, deps.clock.now())
        if not channel_instances.remove(db, instance, names):
            raise NotFound("channel", instance, "`gatepost channel list` shows them")
        return ChannelRemoval(
            instance=instance, secrets=names, waiting=dict(list_waiting_instances(db)).get(instance, 0)
        )

    done = await deps.write(delete)
    if supervisor is not None:
        await supervisor.stop(instance)  # somebody may have started it anew before it was gone
    await asyncio.to_thread(shutil.rmtree, get_folder(deps.home, instance), ignore_errors=True)
    return done


def _check_removable(instance: str, specs: Iterable[ChannelSpec], broken: Iterable[BrokenSpec]) -> None:
    known = {each.instance: each.origin for each in specs} | {each.instance: SpecOrigin.STORE for each in broken}
    if instance not in known:
        raise NotFound("channel", instance, f"`gatepost channel list` shows them{did_you_mean(instance, known)}")
    if known[instance] is SpecOrigin.ALWAYS:
        raise Invalid("instance", f"{instance} is part of the gateway")
    if known[instance] is not SpecOrigin.STORE:
        raise Invalid("instance", f"{instance} stands in gatepost.toml: remove it there, or switch it off (on = false)")


@operation
async def restart(deps: OperationDeps, args: RestartChannelArgs) -> ChannelListItem:
    supervisor = find_supervisor(deps)
    if supervisor is None:
        raise SetupError("no gateway runs; `gatepost up` starts it with its channels")
    spec = await _find_spec(_get_surroundings(deps), args.instance)
    await deps.write(lambda db: None)
    await supervisor.restart(args.instance)
    return _add_report(_make_item(spec, 0), await _wait_until_settled(supervisor, args.instance))


async def _wait_until_settled(supervisor: ChannelSupervisor, instance: str) -> ChannelReport | None:
    """Return what can be said of it after a moment."""
    deadline = asyncio.get_running_loop().time() + SETTLE_S
    while True:
        report = supervisor.find_report(instance)
        if report is None or report.state is not ChannelState.STARTING:
            return report
        if asyncio.get_running_loop().time() > deadline:
            return report
        await asyncio.sleep(LOOK_S)


@operation
async def test(deps: OperationDeps, args: CheckChannelArgs) -> ChannelAnswer:
    """The one that runs is asked itself; else one is made for the question."""
    surroundings, supervisor = _get_surroundings(deps), find_supervisor(deps)
    spec = await _find_spec(surroundings, args.instance)
    running = supervisor.find_channel(args.instance) if supervisor is not None else None
    if running is not None:
        identity = await check_channel(running, spec)
    else:
        await check_complete(surroundings, spec, {})
        identity = await check_spec(surroundings, spec, {})
    return _make_answer(surroundings.config, spec, identity, is_running=running is not None)


@operation
async def add_channel_token(deps: OperationDeps, args: AddChannelTokenArgs) -> ChannelTokenView:
    if args.max_text and not SHORTEST_TEXT <= args.max_text <= LONGEST_TEXT:
        raise Invalid("max_text", f"0 for no limit, or {SHORTEST_TEXT} to {LONGEST_TEXT}")
    there = await _find(deps, args.instance)
    if there is not None and there.kind != REMOTE:
        raise Invalid("name", f"{args.instance} is a channel of the kind {there.kind}, whose adapter is in the gateway")
    given = _list_settings(args)
    if there is None:
        await run_within(deps, add, AddChannelArgs(kind=REMOTE, instance=args.instance, settings=given))
    elif given:
        await run_within(deps, set_channel, SetChannelArgs(instance=args.instance, settings=given))
    secret, now = ids.token(), deps.clock.now()

    def issue(db: Db) -> int:
        revoked = tokens.revoke_adapters(db, args.instance, now)
        new = NewToken(kind=TokenKind.ADAPTER, created_by=deps.caller, instance=args.instance)
        tokens.add(db, new, secret, now)
        return revoked

    revoked = await deps.write(issue)
    made = await _find(deps, args.instance)
    settings = made.settings if made is not None else {}
    return ChannelTokenView(
        secret=secret,
        instance=args.instance,
        url=f"{get_page_url(deps.config)}/channels/{args.instance}",
        is_new=there is None,
        revoked=revoked,
        features=sorted(settings.get("features", ())),
        max_text=int(settings.get("max_text", 0)),
    )


async def _find(deps: OperationDeps, instance: str) -> ChannelListItem | None:
    found = await run_within(deps, list_channels, ListChannelsArgs())
    return next((each for each in found if each.instance == instance), None)


def _list_settings(args: AddChannelTokenArgs) -> dict[str, str]:
    given: dict[str, Any] = {}
    if args.features:
        given["features"] = ",".join(args.features)
    if args.max_text is not None:
        given["max_text"] = str(args.max_text)
    return given
