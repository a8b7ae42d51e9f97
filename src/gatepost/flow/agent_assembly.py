"""The ground of agents, put together: their way out, their tools, and the sessions that they work in."""

from msgspec import Struct

from gatepost.core.registry import Registry
from gatepost.egress.egress_socket import EgressDeps
from gatepost.egress.model_proxy import ModelProxy
from gatepost.egress.price_list import PriceList
from gatepost.flow.budgets_and_secrets import SpenderSecrets, StoreBudget
from gatepost.flow.channel_assembly import ChannelAssembly
from gatepost.flow.flow_deps import FlowDeps
from gatepost.flow.gateways.group_place import PLACE
from gatepost.flow.requests.agent_questions import AgentQuestions
from gatepost.flow.requests.held_calls import HeldCalls
from gatepost.flow.requests.refused_hosts import RefusedHosts
from gatepost.flow.sessions.forking import EndSession, SessionForker
from gatepost.flow.sessions.replaying import SessionReplayer
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.flow.sessions.session_supervisor import SessionSupervisor
from gatepost.flow.sessions.session_timeouts import ListeningTime
from gatepost.flow.worktrees.sandbox_jobs import SandboxJobs
from gatepost.flow.worktrees.worktrees import Worktrees
from gatepost.gate.connectors import CONNECTORS, Connectors
from gatepost.gate.dispatch import Dispatch
from gatepost.store.gateways.shared_folders import GroupPlace
from gatepost.tools.call import ToolDeps
from gatepost.tools.contract import TOOLS, Tool


class EgressAssembly(Struct, frozen=True, kw_only=True):
    """The way out: who may go where, and what a model call costs whom."""

    prices: PriceList
    models: ModelProxy
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
    deps: ToolDeps
    dispatch: Dispatch


def make_egress(deps: FlowDeps, channels: ChannelAssembly) -> EgressAssembly:
    purse = StoreBudget(deps.store, deps.clock, channels.instances, deps.events)
    keys = SpenderSecrets(deps.store, deps.secrets)
    prices = PriceList(deps.home, deps.config)
    models = ModelProxy(deps.config, purse, keys, prices, prices.tool, deps.may_act)
    hosts = RefusedHosts(deps.store, deps.clock, deps.config, deps.events, channels.instances)
    egress = EgressDeps(store=deps.store, clock=deps.clock, models=models, keys=keys, may_act=deps.may_act, asker=hosts)
    return EgressAssembly(prices=prices, models=models, hosts=hosts, deps=egress)


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
        shared=deps.shared,
        passing=deps.passing,
    )
    return ToolAssembly(
        tools=tools,
        connectors=connectors,
        worktrees=worktrees,
        forker=forker,
        replayer=replayer,
        held_calls=held_calls,
        questions=questions,
        deps=of_tools,
        dispatch=Dispatch(tools, of_tools),
    )


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
        )
    )
