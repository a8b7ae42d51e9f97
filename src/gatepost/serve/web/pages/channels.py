"""Channels: which platforms are connected, whether each is alive, and how to add one."""

from gatepost.channels.contract import SpecOrigin
from gatepost.core.errors import NotFound
from gatepost.serve.control.arguments.channels import (
    AskedSetting,
    ChannelKindItem,
    ChannelListItem,
    ListChannelKindsArgs,
    ListChannelsArgs,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import link, make_columns, make_table
from gatepost.serve.web.dashboard.view import (
    Action,
    EmptyState,
    FormInput,
    FormStep,
    InputKind,
    Link,
    Note,
    PageView,
    StepForm,
    Tone,
)

EMPTY = EmptyState(text="No platform is connected. The chat and the terminal work without one.")
LEAD = "Its platform is asked first. If it says no, or cannot be reached, nothing is written."
CHANNEL = make_columns(ChannelListItem)
PLATFORM = link("name", "Platform", "/channels/add/{kind}", shown=lambda each: each.title)
KIND = make_columns(ChannelKindItem, {"name": PLATFORM}, without=("title",))


@page("/channels", "Channels", Section.CHANNELS, "channel.list", order=10)
async def show_channels(request: PageRequest) -> PageView:
    kinds, found = await request.ask(ListChannelKindsArgs()), await request.ask(ListChannelsArgs())
    return PageView(
        blocks=[
            make_table(found, CHANNEL, EMPTY, actions=list_actions),
            make_table(kinds, KIND, EmptyState(text="There are no kinds."), title="Add one"),
        ],
    )


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
    return PageView(title=f"Add {kind.title}", lead=LEAD, blocks=[*first, make_form(kind)])


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
