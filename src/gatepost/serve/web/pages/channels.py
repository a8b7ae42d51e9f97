"""Channels: which platforms are connected, whether each is alive, and how to add one."""

from gatepost.flow.channel_specs import SpecOrigin
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import Answer, badge, code, make_table, moment, number, text
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView, Tone

ADD = Action(label="Add a channel", operation="channel.add", asks=True, tone=Tone.GOOD)
EMPTY = EmptyState(text="No platform is connected. The chat and the terminal work without one.", action=ADD)
CHANNEL = (
    code("instance", "Channel"),
    text("kind", "Kind"),
    badge("state", "State"),
    text("error", "Trouble"),
    text("way_out", "Way out"),
    moment("beat_at", "Alive"),
    moment("event_at", "Last message"),
    number("waiting", "Waiting"),
    number("restarts", "Restarts"),
)
KIND = (
    code("name", "Kind"),
    text("title", "Platform"),
    text("before", "First"),
    text("tested_against", "Tested against"),
)


@page("/channels", "Channels", Section.GATEWAY, "channel.list", order=10)
async def show_channels(request: PageRequest) -> PageView:
    kinds = await request.ask("channel.kinds")
    return PageView(
        blocks=[
            make_table(await request.ask("channel.list"), CHANNEL, EMPTY, actions=list_actions),
            make_table(kinds, KIND, EmptyState(text="There are no kinds."), actions=list_kind_actions, title="Kinds"),
        ],
        actions=(ADD,),
    )


def list_actions(channel: Answer) -> tuple[Action, ...]:
    given = {"instance": channel["instance"]}
    if channel["origin"] in (SpecOrigin.ALWAYS, SpecOrigin.GIVEN):
        return ()
    return (
        Action(label="Test", operation="channel.test", args=given),
        Action(label="Restart", operation="channel.restart", args=given),
        Action(label="Change", operation="channel.set", args=given, asks=True),
        Action(label="Remove", operation="channel.remove", args=given, asks=True, tone=Tone.BAD),
    )


def list_kind_actions(kind: Answer) -> tuple[Action, ...]:
    return (Action(label="Add", operation="channel.add", args={"kind": kind["name"]}, asks=True),)
