"""The flows of a gateway, put together from the parts that the app gives them (`FlowDeps`).

They are the channels with their delivery, the ground of agents (way out, tools, sessions), and the loops. Loops take
messages in, ask people, fire tasks and remove what is old.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from msgspec import Struct, field

from gatepost.channels.contract import CHANNELS, Channel, ChannelDeps, ChannelKind, SpecOrigin
from gatepost.core.clock import Clock, ListeningTime
from gatepost.core.durations import Durations
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.process.fencing import FenceCheck, always
from gatepost.core.process.thread_pools import FairThreadPool
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.egress.model_proxy import ModelProxy
from gatepost.egress.prices import PriceList
from gatepost.egress.way_out import EgressDeps
from gatepost.egress.web_pages import WebPages
from gatepost.egress.web_search import SEARCH_WEB, WebSearch, find_search_service
from gatepost.flow.channel_supervisor import ChannelSupervisor, ChannelSurroundings
from gatepost.flow.delivery.delivery_loop import LOOK_S, DeliveryLoop
from gatepost.flow.delivery.growing_messages import GrowingMessages
from gatepost.flow.delivery.outgoing_messages import LANGUAGE, ChannelInstances
from gatepost.flow.delivery.typing_indicator import TypingIndicator
from gatepost.flow.errand_loop import ErrandLoop, ErrandSessionCloser
from gatepost.flow.gateways.duties import Duties
from gatepost.flow.gateways.group_place import PLACE
from gatepost.flow.gateways.session_claims import SessionClaims, SoleGateway
from gatepost.flow.gateways.session_directory import SessionDirectory
from gatepost.flow.group_egress import SpenderSecrets, StoreBudget
from gatepost.flow.intake.chat_forks import ChatForks
from gatepost.flow.intake.engagement import TTL_S
from gatepost.flow.intake.intake import Intake
from gatepost.flow.memory.meanings import MemoryMeanings
from gatepost.flow.people.newcomer_groups import NewcomerGroups
from gatepost.flow.people.person_erasure import PersonErasure
from gatepost.flow.requests.agent_questions import AgentQuestions
from gatepost.flow.requests.ask_approver import read_rules
from gatepost.flow.requests.held_calls import HeldCalls
from gatepost.flow.requests.refused_hosts import RefusedHosts
from gatepost.flow.requests.request_loop import ProviderAnswers, RequestLoop
from gatepost.flow.requests.unpriced_models import ModelPricing, PriceWriter
from gatepost.flow.retention import Retention
from gatepost.flow.schedule.task_loop import TaskLoop
from gatepost.flow.sessions.forking import EndSession, SessionForker
from gatepost.flow.sessions.host.sandbox_processes import SandboxFreezer
from gatepost.flow.sessions.replaying import SessionReplayer
from gatepost.flow.sessions.runner.drafts import DraftRelay
from gatepost.flow.sessions.sandbox import effective_group
from gatepost.flow.sessions.sandbox.sandbox_requirements import follow_channels
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.flow.sessions.session_supervisor import SessionSupervisor
from gatepost.flow.worktrees.sandbox_jobs import SandboxJobs
from gatepost.flow.worktrees.worktrees import Worktrees
from gatepost.gate.connectors import CONNECTORS, Connectors, search_by_connector
from gatepost.gate.dispatch import Dispatch
from gatepost.store.gateways.shared_folders import GroupPlace
from gatepost.store.messages.file_passing import FilePassing
from gatepost.store.port import Store
from gatepost.store.rights.secrets import SecretReader
from gatepost.tools.call import ToolCall, ToolDeps
from gatepost.tools.contract import TOOLS, Tool


class FlowDeps(Struct, frozen=True, kw_only=True):
    home: Home
    config: Config
    clock: Clock
    store: Store
    secrets: SecretReader
    events: EventBus
    files: FairThreadPool
    owner: str  # this gateway; by itself, this run of it
    duties: Duties = field(default_factory=Duties)
    claims: SessionClaims = field(default_factory=SoleGateway)
    freezer: SandboxFreezer = field(default_factory=SandboxFreezer)
    passing: FilePassing | None = None  # None: there are no other gateways
    shared: bool = False  # other gateways write to the store, too
    may_act: FenceCheck = always  # False: others may believe that this gateway is dead
    durations: Durations = field(default_factory=Durations)  # of what is counted for `/metrics`


class ChannelAssembly(Struct, frozen=True, kw_only=True):
    kinds: dict[str, ChannelKind]  # both by instance; the supervisor changes them
    adapters: dict[str, Channel]
    supervisor: ChannelSupervisor
    instances: ChannelInstances
    typing: TypingIndicator
    drafts: DraftRelay
    pump: DeliveryLoop


def make_channels(deps: FlowDeps, extra: Mapping[str, tuple[ChannelKind, Channel]]) -> ChannelAssembly:
    kinds: dict[str, ChannelKind] = {}
    adapters: dict[str, Channel] = {}
    supervisor = _make_supervisor(deps, kinds, adapters, extra)
    channels = ChannelInstances(kinds, adapters, deps.config[TTL_S], deps.config[LANGUAGE])
    typing = TypingIndicator(adapters, channels)
    drafts = DraftRelay(adapters, GrowingMessages(deps.store, deps.clock, channels, deps.events), channels.shows_drafts)
    channels.get_draft = drafts.get_text
    pump = DeliveryLoop(deps.store, deps.clock, deps.config, adapters, channels, deps.events, deps.owner, deps.duties)
    pump.may_act, pump.durations = deps.may_act, deps.durations
    pump.set_files(deps.home.media, deps.passing)
    supervisor.may_act = deps.may_act
    supervisor.is_sending = pump.is_sending
    supervisor.on_late_failure = pump.record_late_failure
    supervisor.on_state = deps.events.channel
    supervisor.follow_duties(deps.duties)
    pump.on_channel_ended(supervisor.report_end, supervisor.find_trouble)
    pump.on_sent(supervisor.note_sent)
    pump.on_sent(typing.delivered)
    pump.on_sent(drafts.delivered)
    return ChannelAssembly(
        kinds=kinds,
        adapters=adapters,
        supervisor=supervisor,
        instances=channels,
        typing=typing,
        drafts=drafts,
        pump=pump,
    )


def _make_supervisor(
    deps: FlowDeps,
    kinds: dict[str, ChannelKind],
    adapters: dict[str, Channel],
    extra: Mapping[str, tuple[ChannelKind, Channel]],
) -> ChannelSupervisor:
    """Make the supervisor with the channels that are ourselves, and those that are given. The others are made when it
    starts."""
    surroundings = ChannelSurroundings(
        home=deps.home, config=deps.config, store=deps.store, clock=deps.clock, secrets=deps.secrets
    )
    made = ChannelSupervisor(surroundings, kinds, adapters)
    for name, kind in CHANNELS.list_loaded():
        if kind.always:
            channel = kind.make(ChannelDeps(instance=name, config=deps.config, clock=deps.clock))
            made.add_made(name, kind, channel, SpecOrigin.ALWAYS)
    for instance, (kind, channel) in extra.items():
        made.add_made(instance, kind, channel, SpecOrigin.GIVEN)
    follow_channels(deps.config, kinds)
    return made


class EgressAssembly(Struct, frozen=True, kw_only=True):
    """The way out: who may go where, and what a model call costs whom."""

    prices: PriceList
    models: ModelProxy
    purse: StoreBudget
    keys: SpenderSecrets
    hosts: RefusedHosts
    deps: EgressDeps


class ToolAssembly(Struct, frozen=True, kw_only=True):
    """Parts through which tools are called, and what they bring about."""

    tools: Registry[Tool]
    connectors: Connectors
    worktrees: Worktrees
    forker: SessionForker
    replayer: SessionReplayer
    held_calls: HeldCalls
    questions: AgentQuestions
    meanings: MemoryMeanings
    deps: ToolDeps
    dispatch: Dispatch


def make_egress(deps: FlowDeps, channels: ChannelAssembly) -> EgressAssembly:
    purse = StoreBudget(deps.store, deps.clock, channels.instances, deps.events)
    keys = SpenderSecrets(deps.store, deps.secrets)
    prices = PriceList(deps.home, deps.config)
    find_model = partial(effective_group.find_model, config=deps.config)
    asker = ModelPricing(deps.store, deps.clock, deps.events, channels.instances, read_rules(deps.config), find_model)
    models = ModelProxy(deps.config, purse, keys, prices, prices.tool, deps.may_act, asker)
    models.durations = deps.durations
    hosts = RefusedHosts(deps.store, deps.clock, deps.config, deps.events, channels.instances)
    egress = EgressDeps(store=deps.store, clock=deps.clock, models=models, keys=keys, may_act=deps.may_act, asker=hosts)
    return EgressAssembly(prices=prices, models=models, purse=purse, keys=keys, hosts=hosts, deps=egress)


def make_tools(
    deps: FlowDeps, channels: ChannelAssembly, egress: EgressAssembly, end_session: EndSession
) -> ToolAssembly:
    home, store, clock, config, events = deps.home, deps.store, deps.clock, deps.config, deps.events
    tools = TOOLS.copy()
    connectors = Connectors(config[CONNECTORS], tools, home, events, deps.secrets, store, clock)
    jobs = SandboxJobs(home, config, store, clock, egress.deps, deps.freezer)
    worktrees = Worktrees(home, config, store, clock, jobs)
    forker = SessionForker(home, store, clock, config, deps.files, end_session)
    replayer = SessionReplayer(home, store, clock, config, events, deps.files)
    placed = deps.shared and config[PLACE] == GroupPlace.LOCAL
    held_calls = HeldCalls(store, clock, config, events, channels.instances, deps.owner if placed else "", home.media)
    questions = AgentQuestions(store, clock, config, events, channels.instances)
    pages = WebPages(egress.deps)
    meanings = MemoryMeanings(home, store, clock, config, egress.purse, egress.keys, deps.may_act)
    of_tools = ToolDeps(
        store=store,
        clock=clock,
        config=config,
        home=home,
        events=events,
        channels=channels.instances,
        writes_to=channels.pump.write,
        adapters=channels.adapters,
        worktrees=worktrees,
        programs=jobs,
        forker=forker,
        replayer=replayer,
        may_act=deps.may_act,
        threads=deps.files,
        holder=held_calls,
        host_asker=egress.hosts,
        questions=questions,
        pages=pages,
        searcher=WebSearch(config, pages, egress.purse, egress.keys),
        meanings=meanings,
        search_by_tool=set_up_search(tools, config),
        shared=deps.shared,
        passing=deps.passing,
    )
    dispatch = Dispatch(tools, of_tools)
    dispatch.durations = deps.durations
    return ToolAssembly(
        tools=tools,
        connectors=connectors,
        worktrees=worktrees,
        forker=forker,
        replayer=replayer,
        held_calls=held_calls,
        questions=questions,
        meanings=meanings,
        deps=of_tools,
        dispatch=dispatch,
    )


def set_up_search(tools: Registry[Tool], config: Config) -> Callable[[ToolCall, str], Awaitable[str]] | None:
    """A search by a connector's tool obeys the rules about that tool, too."""
    service = find_search_service(config)
    if service is None or not service.connector:
        return None
    name = service.connector
    if (tool := tools.get(SEARCH_WEB)) is not None:
        origin = tools.origin(SEARCH_WEB)
        tools.drop(SEARCH_WEB)
        tools.add(SEARCH_WEB, replace(tool, acts_as=lambda arguments: name), origin)
    return partial(search_by_connector, tools, name)


def make_sessions(
    deps: FlowDeps, channels: ChannelAssembly, egress: EgressAssembly, dispatch: Dispatch
) -> SessionSupervisor:
    return SessionSupervisor(
        SessionDeps(
            home=deps.home,
            config=deps.config,
            store=deps.store,
            clock=deps.clock,
            events=deps.events,
            dispatch=dispatch,
            egress=egress.deps,
            channels=channels.instances,
            typing=channels.typing,
            drafts=channels.drafts,
            pump=channels.pump,
            owner=deps.owner,
            claims=deps.claims,
            freezer=deps.freezer,
            passing=deps.passing,
            files=deps.files,
            listening=ListeningTime(deps.clock),
            durations=deps.durations,
        )
    )


class LoopAssembly(Struct, frozen=True, kw_only=True):
    intake: Intake
    requests: RequestLoop
    provider_answers: ProviderAnswers
    schedule: TaskLoop
    errands: ErrandLoop
    errand_sessions: ErrandSessionCloser
    chat_forks: ChatForks
    newcomers: NewcomerGroups
    retention: Retention
    erasure: PersonErasure


def make_loops(
    deps: FlowDeps,
    channels: ChannelAssembly,
    tools: ToolAssembly,
    here: SessionSupervisor,
    sessions: SessionDirectory,
    get_page: Callable[[], str],
    move_models: Callable[[Config], None],
) -> LoopAssembly:
    """`here`: the sessions that this gateway runs; `sessions`: all of them. `get_page`: where the web page is served;
    '' while it is not."""
    home, store, clock, config, events = deps.home, deps.store, deps.clock, deps.config, deps.events
    answers = ProviderAnswers(store, clock, events, here)
    chat_forks = ChatForks(store, clock, channels.instances, events, tools.forker)
    intake = Intake(
        store,
        clock,
        config,
        events,
        channels.instances,
        home,
        sessions.stop,
        sessions.kill,
        sessions.end,
        sessions.renew,
        get_page,
        chat_forks.ring,
        deps.passing,
    )
    return LoopAssembly(
        intake=intake,
        requests=_make_request_loop(deps, channels, tools, answers, move_models),
        provider_answers=answers,
        schedule=TaskLoop(store, clock, config, events, channels.instances),
        errands=ErrandLoop(store, clock, events, sessions, config[LOOK_S]),
        errand_sessions=ErrandSessionCloser(home, store, clock, config, sessions),
        chat_forks=chat_forks,
        newcomers=NewcomerGroups(store, clock, config, home, events, channels.instances),
        retention=Retention(home, store, clock, config, sessions.keep_asleep),
        erasure=PersonErasure(home, store, clock, sessions.keep_asleep, sessions.end, intake.discard_counts),
    )


def _make_request_loop(
    deps: FlowDeps,
    channels: ChannelAssembly,
    tools: ToolAssembly,
    answers: ProviderAnswers,
    move_models: Callable[[Config], None],
) -> RequestLoop:
    prices = PriceWriter(deps.store, deps.clock, deps.events, channels.instances, deps.home, move_models)
    return RequestLoop(
        deps.store,
        deps.clock,
        deps.config,
        deps.events,
        channels.instances,
        tools.held_calls,
        tools.dispatch,
        answers,
        tools.questions,
        deps.home.media,
        prices,
    )
