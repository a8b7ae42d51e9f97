"""The first steps: name yourself, connect an agent, add a channel, say hello. Each may be left out."""

from gatepost.channels.contract import SpecOrigin
from gatepost.flow.groups.groups import WORLD
from gatepost.serve.control.arguments.channels import ListChannelKindsArgs, ListChannelsArgs
from gatepost.serve.control.arguments.connect import ConnectableAgent, ListConnectableArgs
from gatepost.serve.control.arguments.users import ShowUserArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import link, made, make_table, text
from gatepost.serve.web.dashboard.view import (
    Code,
    EmptyState,
    FormInput,
    FormStep,
    InputKind,
    Link,
    Note,
    PageView,
    ProgressBlock,
    ProgressStep,
    StepForm,
    TableBlock,
    Tone,
)

NAME, AGENT, CHANNEL, CHAT = "/welcome", "/welcome/agent", "/welcome/channel", "/"
KIND = (link("name", "Platform", "/channels/add/{kind}", shown=lambda each: each.title), text("before", "First"))
UNNAMED = ("", "owner")  # names that nobody chose, folded
KEY_HELP = (
    "From your vendor's page for API keys. It is kept sealed, goes to this vendor alone, and no agent sees it. Empty:"
    " the one that is stored, or none for an endpoint of your own."
)
REMEDIES = {
    "sandbox": "The doctor's page says what each sandbox lacks",
    "command": "At a terminal, `gatepost connect acp --command …` names it",
    "library": "At a terminal, `gatepost connect` with its name installs it",
    "program": "At a terminal, `gatepost connect` with its name installs it",
    "model": "Say which one under Further settings",
    "key": "Paste one above",
    "auth": "Nothing was changed. Paste another key",
    "quota": "Look at the vendor's page for the account",
    "budget": "The page of costs says what is left",
    "network": "Nothing was changed. Is the address right, and can it be reached from the gateway's machine?",
    "busy": "Nothing was changed. Try again in a while",
    "time": "Nothing was changed. Try again; the page of logs may say what it did",
    "agent": "Nothing was changed. The page of logs may say more",
    "stopped": "Nothing was changed",
    "price": "Name a model that has one, or give it one, under Further settings",
}
STEPS = (
    FormStep(operation="connect.check", label="Look what is here", remedies=REMEDIES),
    FormStep(operation="connect.try", label="Ask it for one word", remedies=REMEDIES),
    FormStep(operation="connect.keep", label="Let it answer in the chat"),
)


@page(NAME, "Welcome", Section.NOW, "user.show", "connect.list", listed=False)
async def show_name(request: PageRequest) -> PageView:
    person = await request.ask(ShowUserArgs(id=request.person))
    known = "" if person.name.casefold() in UNNAMED else person.name
    given = FormInput(name="name", label="Your name", kind=InputKind.TEXT, value=known, required=True)
    form = StepForm(
        steps=(FormStep(operation="user.rename", label="Keep the name"),),
        inputs=[given],
        fixed={"id": request.person},
        submit="Save",
        help="Agents and other people see it beside what you write.",
        done=Link("Go on", render_path(AGENT)),
        goes_on=True,
        skip=Link("Skip", render_path(AGENT)),
    )
    lead = "A few short steps, and an agent of your own answers in the chat. Each can be skipped."
    return PageView(lead=lead, blocks=[await _make_progress(request, NAME), form])


@page(AGENT, "Connect an agent", Section.NOW, "connect.list", listed=False)
async def show_agent(request: PageRequest) -> PageView:
    agents = await request.ask(ListConnectableArgs())
    here = [each for each in agents if each.installed and not each.needs_command]
    blocks = [await _make_progress(request, AGENT), *make_connected(agents), *make_agent_form(order_agents(here))]
    return PageView(
        lead="It is asked for one word first. Only if it answers, anything is changed; the demo stays until then.",
        blocks=[*blocks, *make_missing([each for each in agents if each not in here])],
    )


def order_agents(agents: list[ConnectableAgent]) -> list[ConnectableAgent]:
    """Those with a key first; whole agents before bare models, which name one."""
    return sorted(agents, key=lambda each: (not each.key, bool(each.model), each.agent))


def make_connected(agents: list[ConnectableAgent]) -> list[Note]:
    """Say which agent answers the chat: that of the group `home`."""
    name = next((each.title or each.agent for each in agents if WORLD in each.groups), "")
    return [Note(text=f"The chat is answered by {name}.", tone=Tone.GOOD, link=Link("Chat", CHAT))] if name else []


def make_agent_form(here: list[ConnectableAgent]) -> list[StepForm | Note]:
    if not here:
        return [Note(text="No agent is installed. `gatepost connect AGENT` installs one.", tone=Tone.WARN)]
    choices = FormInput(
        name="provider",
        label="Agent",
        kind=InputKind.CHOICE,
        value=here[0].agent,
        required=True,
        choices=tuple(each.agent for each in here),
        shown=tuple(_render_agent(each) for each in here),
    )
    key = FormInput(name="key", label="Key", kind=InputKind.SECRET, value="", required=False, description=KEY_HELP)
    return [
        StepForm(
            steps=STEPS,
            inputs=[choices, key],
            further=list(FURTHER),
            fixed={"folder": WORLD},
            submit="Connect",
            done=Link("Go on", render_path(CHANNEL)),
            skip=Link("Skip", render_path(CHANNEL)),
        )
    ]


FURTHER = (
    FormInput(
        name="model",
        label="Model",
        kind=InputKind.TEXT,
        value="",
        required=False,
        description="Empty: the agent's own.",
        example="claude-sonnet-4-5",
    ),
    FormInput(
        name="base_url",
        label="Endpoint",
        kind=InputKind.TEXT,
        value="",
        required=False,
        description="The address of a local or compatible model. Empty: the vendor's own.",
        example="http://127.0.0.1:11434/v1",
    ),
    FormInput(
        name="price",
        label="Price",
        kind=InputKind.TEXT,
        value="",
        required=False,
        description="In and out, in USD for a million tokens, of a model that is not listed; 0: it is free.",
        example="3/15",
    ),
)


def _render_agent(agent: ConnectableAgent) -> str:
    title = agent.title[:1].upper() + agent.title[1:] or agent.agent
    return f"{title} · a key is stored" if agent.key else title


def make_missing(missing: list[ConnectableAgent]) -> list[TableBlock]:
    """Those that need a program on the machine: whoever has a terminal there installs or names it."""
    command = made(
        "command", "At a terminal of the gateway's machine", lambda each: Code(f"gatepost connect {each.agent}")
    )
    fields = (text("title", "Agent"), command)
    return [make_table(missing, fields, EmptyState(text=""), title="By a command")] if missing else []


@page(CHANNEL, "Add a channel", Section.NOW, "channel.kinds", "channel.list", listed=False)
async def show_channel(request: PageRequest) -> PageView:
    kinds = await request.ask(ListChannelKindsArgs())
    empty = EmptyState(text="There are no further kinds.")
    return PageView(
        lead="So that people reach the agent where they are. The chat on this page works without one.",
        blocks=[
            await _make_progress(request, CHANNEL),
            Note(text="The chat is ready.", tone=Tone.GOOD, link=Link("Say hello", CHAT)),
            make_table(kinds, KIND, empty),
        ],
    )


async def _make_progress(request: PageRequest, current: str) -> ProgressBlock:
    person = await request.ask(ShowUserArgs(id=request.person))
    agents = await request.ask(ListConnectableArgs())
    channels = await request.ask(ListChannelsArgs()) if await request.may("channel.list") else []
    done = {
        NAME: person.name.casefold() not in UNNAMED,
        AGENT: any(WORLD in each.groups for each in agents),
        CHANNEL: any(each.origin != SpecOrigin.ALWAYS for each in channels),
    }
    return make_progress(current, done)


def make_progress(current: str, done: dict[str, bool]) -> ProgressBlock:
    labels = ((NAME, "Your name"), (AGENT, "An agent"), (CHANNEL, "A channel"))
    steps = tuple(
        ProgressStep(label=label, href=render_path(path), is_current=path == current, is_done=done[path])
        for path, label in labels
    )
    hello = ProgressStep(label="Say hello", href=CHAT, is_current=False, is_done=False)
    return ProgressBlock(steps=(*steps, hello))
