"""Managed agents: those that people and programs start for a piece of work. Connectors: third-party MCP servers that
the host runs, and their tools.

The first steps as well: name yourself, connect an agent, add a channel, say hello. Each may be left out.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from gatepost.channels.contract import SpecOrigin
from gatepost.flow.groups import WORLD
from gatepost.serve.control.arguments.agents import (
    AgentSnapshot,
    ConnectorItem,
    ListAgentsArgs,
    ListConnectorsArgs,
    ShowAgentArgs,
)
from gatepost.serve.control.arguments.channels import ListChannelKindsArgs, ListChannelsArgs
from gatepost.serve.control.arguments.connect import (
    ConnectableAgent,
    FindLocalModelsArgs,
    ListConnectableArgs,
    LocalModel,
    render_size,
)
from gatepost.serve.control.arguments.users import ShowUserArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import (
    code,
    link,
    made,
    make_columns,
    make_facts,
    make_table,
    make_texts,
    shorten,
)
from gatepost.serve.web.dashboard.view import (
    Action,
    Block,
    EmptyState,
    Filter,
    FormInput,
    FormStep,
    InputKind,
    Link,
    Note,
    PageView,
    ProgressBlock,
    ProgressStep,
    StepForm,
    Tile,
    TileBlock,
    Tone,
)
from gatepost.serve.web.pages.channels import make_tiles
from gatepost.store.sessions.sessions import SessionState

NEW_AGENT = Action(label="New agent", operation="agent.create", asks=True, tone=Tone.GOOD)
NO_AGENTS = EmptyState(text="No agent was started for a piece of work yet.", action=NEW_AGENT)
WHICH = (("", "Open"), ("all", "Also archived"))
GROUP = link("folder", "Group", "/groups/{folder}")
NAME = made(
    "title",
    "Agent",
    lambda each: Link(shorten(each.title or each.agent_id, 60), render_path("/agents/{id}", id=each.agent_id)),
)
LAST = made("lastMessage", "Last", lambda each: shorten(each.last_message or "") or None)
AGENT = (*make_columns(AgentSnapshot, {"title": NAME, "folder": GROUP}), LAST)
DETAILS = make_columns(AgentSnapshot, {"agent_id": code("agent_id", "Id"), "folder": GROUP}, details=True)
NO_CONNECTORS = EmptyState(
    text="No connector is declared. One is a table in gatepost.toml, and the next start runs it:",
    command='[connectors.github]\ncommand = ["github-mcp-server", "stdio"]\nenv_secrets = ["GITHUB_TOKEN"]\n'
    'tier = "world"',
)
CONNECTOR = make_columns(ConnectorItem, details=True)
LOCAL_AGENT, MOST_LOCAL = "openai", 12  # models that are offered as found on this machine, and how they are asked
LOCAL_HELP = "They need no key and cost nothing."
LEAD = "It is asked for one word first. Only if it answers, anything is changed; the demo stays until then."
NAME_STEP, AGENT_STEP, CHANNEL_STEP, CHAT = "/welcome", "/welcome/agent", "/welcome/channel", "/"
UNNAMED = ("", "owner")  # names that nobody chose, folded
KEY_HELP = (
    "From your vendor's page for API keys. It is kept sealed, goes to this vendor alone, and no agent sees it. Empty:"
    " the one that is stored, or none for an endpoint of your own."
)
CONNECT_REMEDIES = {
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
    "install": "Nothing was changed. A terminal of the gateway's machine shows more",
    "price": "Name a model that has one, or give it one, under Further settings",
}
INSTALL_STEP = FormStep(operation="connect.install", label="Install it", remedies=CONNECT_REMEDIES)
CONNECT_STEPS = (
    FormStep(operation="connect.check", label="Look what is here", remedies=CONNECT_REMEDIES),
    FormStep(operation="connect.try", label="Ask it for one word", remedies=CONNECT_REMEDIES),
    FormStep(operation="connect.keep", label="Let it answer in the chat"),
)


@page("/agents", "Background agents", Section.AGENTS, "agent.list", order=50)
async def show_agents(request: PageRequest) -> PageView:
    which = request.query.get("which", "")
    found = await request.ask(ListAgentsArgs(archived=which == "all"))
    return PageView(
        blocks=[make_table(found, AGENT, NO_AGENTS, actions=list_agent_actions)],
        actions=(NEW_AGENT,),
        filters=(Filter(name="which", label="Show", choices=WHICH, chosen=which),),
    )


@page("/agents/{id}", "Agent", Section.AGENTS, "agent.show")
async def show_agent(request: PageRequest) -> PageView:
    agent = await request.ask(ShowAgentArgs(id=request.params["id"]))
    trouble = [Note(text=agent.last_error, tone=Tone.BAD)] if agent.last_error else []
    say = Action(
        label="Say something", operation="agent.prompt", args={"id": agent.agent_id}, asks=True, tone=Tone.GOOD
    )
    return PageView(
        title=agent.title or agent.agent_id,
        blocks=[*trouble, make_facts(agent, DETAILS), *make_texts(AgentSnapshot, agent)],
        actions=(*list_agent_actions(agent), say),
    )


def list_agent_actions(agent: AgentSnapshot) -> tuple[Action, ...]:
    given = {"id": agent.agent_id}
    if agent.archived_at:
        return ()
    archive = Action(label="Archive", operation="agent.archive", args=given, asks=True, tone=Tone.BAD)
    if agent.status == SessionState.RUNNING:
        return (Action(label="Stop", operation="agent.stop", args=given), archive)
    return (archive,)


@page("/connectors", "Connectors", Section.SYSTEM, "connector.list", order=50)
async def show_connectors(request: PageRequest) -> PageView:
    found = await request.ask(ListConnectorsArgs())
    may = await request.may("connector.check")
    return PageView(
        blocks=[make_table(found, CONNECTOR, NO_CONNECTORS, actions=list_connector_actions if may else list_no_actions)]
    )


def list_connector_actions(connector: ConnectorItem) -> tuple[Action, ...]:
    return (Action(label="Check", operation="connector.check", args={"name": connector.name}, asks=True),)


def list_no_actions(connector: ConnectorItem) -> tuple[Action, ...]:
    return ()


@page(NAME_STEP, "Welcome", Section.AGENTS, "user.show", "connect.list", listed=False)
async def show_name_step(request: PageRequest) -> PageView:
    person = await request.ask(ShowUserArgs(id=request.person))
    known = "" if person.name.casefold() in UNNAMED else person.name
    given = FormInput(name="name", label="Your name", kind=InputKind.TEXT, value=known, required=True)
    form = StepForm(
        steps=(FormStep(operation="user.rename", label="Keep the name"),),
        inputs=[given],
        fixed={"id": request.person},
        submit="Save",
        help="Agents and other people see it beside what you write.",
        done=Link("Go on", render_path(AGENT_STEP)),
        goes_on=True,
        skip=Link("Skip", render_path(AGENT_STEP)),
    )
    lead = "A few short steps, and an agent of your own answers in the chat. Each can be skipped."
    return PageView(lead=lead, blocks=[await _make_progress(request, NAME_STEP), form])


@page(AGENT_STEP, "Connect an agent", Section.AGENTS, "connect.list", listed=False)
async def show_agent_step(request: PageRequest) -> PageView:
    agents = await request.ask(ListConnectableArgs())
    local = (await request.ask(FindLocalModelsArgs())).models[:MOST_LOCAL]
    blocks: list[Block] = [await _make_progress(request, AGENT_STEP), *make_connected(agents)]
    chosen = next((each for each in agents if each.agent == request.query.get("agent")), None)
    if chosen is not None:
        model = find_model(local, request.query)
        blocks.append(make_agent_form(chosen, model))
        return PageView(title=f"Connect {model.model if model else _get_title(chosen)}", lead=LEAD, blocks=blocks)
    by_hand = [each for each in agents if each.needs_command or not (each.installed or each.can_install)]
    offered = [make_agent_tile(each) for each in order_agents(agents) if each not in by_hand]
    return PageView(
        lead=LEAD, blocks=[*blocks, *make_local_tiles(local), TileBlock(tiles=offered), *make_missing(by_hand)]
    )


def find_model(found: Sequence[LocalModel], query: Mapping[str, str]) -> LocalModel | None:
    """Return the model of an address, if it is on this machine: a link of somebody else's names no server of theirs."""
    wanted = query.get("base_url"), query.get("model")
    return next((each for each in found if (each.base_url, each.model) == wanted), None)


def make_agent_tile(agent: ConnectableAgent) -> Tile:
    words = "a key is stored" if agent.key else "" if agent.installed else "is installed when you connect it"
    return Tile(title=_get_title(agent), href=_make_agent_href(agent=agent.agent), text=words)


def make_local_tiles(found: Sequence[LocalModel]) -> list[TileBlock]:
    """Return the models that were found on this machine: they need no key and cost nothing."""
    tiles = [
        Tile(
            title=each.model,
            href=_make_agent_href(agent=LOCAL_AGENT, base_url=each.base_url, model=each.model),
            text=", ".join(filter(None, (each.server, render_size(each.size)))),
        )
        for each in found
    ]
    return [TileBlock(tiles=tiles, title="On this machine", help=LOCAL_HELP)] if tiles else []


def _make_agent_href(**query: str) -> str:
    return f"{render_path(AGENT_STEP)}?{urlencode({name: value for name, value in query.items() if value})}"


def order_agents(agents: list[ConnectableAgent]) -> list[ConnectableAgent]:
    """Those with a key first; whole agents before bare models, which name one."""
    return sorted(agents, key=lambda each: (not each.key, bool(each.model), each.agent))


def make_connected(agents: list[ConnectableAgent]) -> list[Note]:
    """Say which agent answers the chat: that of the group `home`."""
    name = next((each.title or each.agent for each in agents if WORLD in each.groups), "")
    return [Note(text=f"The chat is answered by {name}.", tone=Tone.GOOD, link=Link("Chat", CHAT))] if name else []


def make_agent_form(agent: ConnectableAgent, model: LocalModel | None = None) -> StepForm:
    """`model`: one on this machine, which the agent is to ask."""
    fixed = {"folder": WORLD, "provider": agent.agent}
    key = FormInput(name="key", label="Key", kind=InputKind.SECRET, value="", required=False, description=KEY_HELP)
    if model is not None:
        fixed |= {"base_url": model.base_url, "model": model.model, "price": "0"}
        fixed |= {"options.context": str(model.context)} if model.context else {}
    return StepForm(
        steps=CONNECT_STEPS if agent.installed else (INSTALL_STEP, *CONNECT_STEPS),
        inputs=[] if model else [key],
        further=[] if model else list(FURTHER_INPUTS),
        fixed=fixed,
        submit="Connect",
        help=render_cost(model),
        done=Link("Go on", render_path(CHANNEL_STEP)),
        skip=Link("Another agent", render_path(AGENT_STEP)),
    )


def render_cost(model: LocalModel | None) -> str:
    """Say what happens to what is typed here, and what it costs."""
    if model is not None:
        return f"{model.model} runs on this machine. It needs no key and costs nothing, and no words leave the machine."
    return (
        "Each answer is paid to the vendor of the models by your key. The one word of the trial costs less than a cent."
        " A limit for each day is set on the page of costs."
    )


FURTHER_INPUTS = (
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


def _get_title(agent: ConnectableAgent) -> str:
    return agent.title[:1].upper() + agent.title[1:] or agent.agent


def make_missing(missing: Sequence[ConnectableAgent]) -> list[Note]:
    """Those that whoever has a terminal of the gateway's machine installs or names there."""
    if not missing:
        return []
    ways = ", ".join(f"{each.title} (`gatepost connect {each.agent}`)" for each in missing)
    return [Note(text=f"At a terminal of the gateway's machine there are also {ways}.")]


@page(CHANNEL_STEP, "Add a channel", Section.CHANNELS, "channel.kinds", "channel.list", listed=False)
async def show_channel_step(request: PageRequest) -> PageView:
    kinds = await request.ask(ListChannelKindsArgs())
    return PageView(
        lead="So that people reach the agent where they are. The chat on this page works without one.",
        blocks=[
            await _make_progress(request, CHANNEL_STEP),
            Note(text="The chat is ready.", tone=Tone.GOOD, link=Link("Say hello", CHAT)),
            make_tiles(kinds),
        ],
    )


async def _make_progress(request: PageRequest, current: str) -> ProgressBlock:
    person = await request.ask(ShowUserArgs(id=request.person))
    agents = await request.ask(ListConnectableArgs())
    channels = await request.ask(ListChannelsArgs()) if await request.may("channel.list") else []
    done = {
        NAME_STEP: person.name.casefold() not in UNNAMED,
        AGENT_STEP: any(WORLD in each.groups for each in agents),
        CHANNEL_STEP: any(each.origin != SpecOrigin.ALWAYS for each in channels),
    }
    return make_progress(current, done)


def make_progress(current: str, done: dict[str, bool]) -> ProgressBlock:
    labels = ((NAME_STEP, "Your name"), (AGENT_STEP, "An agent"), (CHANNEL_STEP, "A channel"))
    steps = tuple(
        ProgressStep(label=label, href=render_path(path), is_current=path == current, is_done=done[path])
        for path, label in labels
    )
    hello = ProgressStep(label="Say hello", href=CHAT, is_current=False, is_done=False)
    return ProgressBlock(steps=(*steps, hello))
