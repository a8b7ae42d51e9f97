"""Tokens for programs that are adapters: the channel is made if there is none, and its token is shown once."""

from typing import Any

from gatepost.core import ids
from gatepost.core.errors import Invalid
from gatepost.flow.pairing import get_page_url
from gatepost.serve.control.arguments.rooms.channel_tokens import AddChannelTokenArgs, ChannelTokenView
from gatepost.serve.control.arguments.rooms.channels import (
    AddChannelArgs,
    ChannelListItem,
    ListChannelsArgs,
    SetChannelArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation, run_within
from gatepost.serve.control.operations.rooms import channels
from gatepost.store.port import Db
from gatepost.store.rights import tokens
from gatepost.store.rights.tokens import NewToken, TokenKind

REMOTE = "remote"  # the kind
LONGEST_TEXT = 1_000_000
SHORTEST_TEXT = 64  # a code block cannot be split below that


@operation
async def add_channel_token(deps: OperationDeps, args: AddChannelTokenArgs) -> ChannelTokenView:
    if args.max_text and not SHORTEST_TEXT <= args.max_text <= LONGEST_TEXT:
        raise Invalid("max_text", f"0 for no limit, or {SHORTEST_TEXT} to {LONGEST_TEXT}")
    there = await _find(deps, args.instance)
    if there is not None and there.kind != REMOTE:
        raise Invalid("name", f"{args.instance} is a channel of the kind {there.kind}, whose adapter is in the gateway")
    given = _list_settings(args)
    if there is None:
        await run_within(deps, channels.add, AddChannelArgs(kind=REMOTE, instance=args.instance, settings=given))
    elif given:
        await run_within(deps, channels.set_channel, SetChannelArgs(instance=args.instance, settings=given))
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
    found = await run_within(deps, channels.list_channels, ListChannelsArgs())
    return next((each for each in found if each.instance == instance), None)


def _list_settings(args: AddChannelTokenArgs) -> dict[str, str]:
    given: dict[str, Any] = {}
    if args.features:
        given["features"] = ",".join(args.features)
    if args.max_text is not None:
        given["max_text"] = str(args.max_text)
    return given
