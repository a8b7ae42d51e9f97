"""Channels: which platforms are connected, how each is, and how to add one."""

from collections.abc import Sequence

from gatepost.channels.contract import ChannelState, SpecOrigin
from gatepost.core.errors import NotFound
from gatepost.serve.control.arguments.channels import (
    AskedSetting,
    ChannelKindItem,
    ChannelListItem,
    ListChannelKindsArgs,
    ListChannelsArgs,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import TableField, made, make_columns, make_facts, make_table, moment, text
from gatepost.serve.web.dashboard.view import (
    Action,
    Badge,
    Disclosure,
    EmptyState,
    FormInput,
    FormStep,
    InputKind,
    Link,
    Note,
    PageView,
    StepForm,
    Tile,
    TileBlock,
    Tone,
)

EMPTY = EmptyState(text="No platform is connected yet. The chat on this page works without one.")
LEAD = "Its platform is asked first. If it says no, or cannot be reached, nothing is written."
ADD = "Add a channel"
EXACT = make_columns(ChannelListItem)
KIND = make_columns(ChannelKindItem, details=True, without=("title", "before"))
OF_OURS = (SpecOrigin.ALWAYS, SpecOrigin.GIVEN)  # nobody has added them
STATES = {
    ChannelState.STARTING: ("Connecting", Tone.PLAIN),
    ChannelState.UP: ("Connected", Tone.GOOD),
    ChannelState.RETRYING: ("Not connected, tries again", Tone.WARN),
    ChannelState.DEAF: ("Hears nothing, is started again", Tone.WARN),
    ChannelState.ENDED: ("Ended", Tone.BAD),
    ChannelState.OFF: ("Switched off", Tone.QUIET),
}
DOWN = ("The gateway does not run", Tone.WARN)


@page("/channels", "Channels", Section.CHANNELS, "channel.list", order=10)
async def show_channels(request: PageRequest) -> PageView:
    kinds, found = await request.ask(ListChannelKindsArgs()), await request.ask(ListChannelsArgs())
    added = [each for each in found if each.origin not in OF_OURS]
    titles = {each.name: each.title for each in kinds}
    every = make_table(found, EXACT, EMPTY)
    return PageView(
        blocks=[
            make_table(added, make_channel_columns(titles), EMPTY, actions=list_actions),
            make_tiles(kinds, ADD),
            Disclosure(label="Show every channel, those of the gateway itself included", blocks=[every]),
        ],
    )


def make_channel_columns(titles: dict[str, str]) -> tuple[TableField, ...]:
    """Return what people ask of a channel. `titles`: of the platforms, by kind."""
    return (
        made("instance", "Channel", lambda each: render_name(each, titles)),
        made("state", "How it is", lambda each: Badge(*STATES.get(each.state, DOWN))),
        text("error", "Trouble"),
        text("remedy", "What to do"),
        moment("event_at", "Last message"),
        made("waiting", "Waits to be sent", lambda each: each.waiting or None),
    )


def render_name(channel: ChannelListItem, titles: dict[str, str]) -> str:
    title = titles.get(channel.kind, channel.kind)
    return title if channel.instance == channel.kind else f"{title}: {channel.instance}"


def make_tiles(kinds: Sequence[ChannelKindItem], title: str = "") -> TileBlock:
    tiles = [Tile(title=each.title, href=render_path("/channels/add/{kind}", kind=each.name)) for each in kinds]
    return TileBlock(tiles=tiles, title=title)


def list_actions(channel: ChannelListItem) -> tuple[Action, ...]:
    given = {"instance": channel.instance}
    if channel.origin in (SpecOrigin.ALWAYS, SpecOrigin.GIVEN):
        return ()
    return (
        Action(label="Test", operation="channel.test", args=given),
        Action(label="Restart", operation="channel.restart", args=given),
        Action(label="Change", operation="channel.set", args=given, asks=True),
        Action(label="Remove", operation="channel.remove", args=given, asks=True, tone=Tone.BAD),
    )


@page("/channels/add/{kind}", "Add a channel", Section.CHANNELS, "channel.add", "channel.kinds")
async def show_kind(request: PageRequest) -> PageView:
    wanted = request.params["kind"]
    kind = next((each for each in await request.ask(ListChannelKindsArgs()) if each.name == wanted), None)
    if kind is None:
        raise NotFound("kind of channel", wanted[:80], "the page of channels lists them")
    first = [Note(text=kind.before)] if kind.before else []
    tested = Disclosure(label="What it was tested against", blocks=[make_facts(kind, KIND)])
    return PageView(title=f"Add {kind.title}", lead=LEAD, blocks=[*first, make_form(kind), tested])


def make_form(kind: ChannelKindItem) -> StepForm:
    """Return what the kind asks for, then what it may be told besides."""
    asked = {each.name for each in kind.asks}
    name = FormInput(
        name="instance",
        label="Name here",
        kind=InputKind.TEXT,
        value="",
        required=False,
        description=f"To tell several channels of one kind apart. Empty: {kind.name}.",
        example="work",
    )
    return StepForm(
        steps=(FormStep(operation="channel.add", label="Ask the platform whether it accepts us"),),
        inputs=[make_input(each) for each in kind.asks],
        further=[name, *(make_input(each) for each in kind.settings if each.name not in asked)],
        fixed={"kind": kind.name},
        submit="Add",
        done=Link("See how it is", render_path("/channels")),
        skip=Link("Back", render_path("/channels")),
    )


def make_input(asked: AskedSetting) -> FormInput:
    """A field that is left empty has its default: it stands in the field as an example."""
    default = asked.default
    shown = ", ".join(default) if isinstance(default, list | tuple) else str(default)
    choices = (*asked.choices,) if asked.choices else ("", "true", "false") if isinstance(default, bool) else ()
    return FormInput(
        name=f"secrets.{asked.name}" if asked.is_secret else f"settings.{asked.name}",
        label=asked.name.replace("_", " ").capitalize(),
        kind=InputKind.SECRET if asked.is_secret else InputKind.CHOICE if choices else InputKind.TEXT,
        value=shown if asked.choices else "",
        required=not asked.is_optional,
        description=asked.help,
        choices=choices,
        shown=(f"as usual ({shown.lower()})", "yes", "no") if isinstance(default, bool) else (),
        example="" if isinstance(default, bool) else shown,
    )
