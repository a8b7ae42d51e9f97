"""The flows of messages put together: what takes messages in, asks people, fires tasks, and removes what is old."""

from collections.abc import Callable

from msgspec import Struct

from gatepost.flow.agent_assembly import ToolAssembly
from gatepost.flow.channel_assembly import ChannelAssembly
from gatepost.flow.delivery.delivery_loop import LOOK_S
from gatepost.flow.errands.errand_loop import ErrandLoop
from gatepost.flow.errands.sweep import ErrandSessionCloser
from gatepost.flow.flow_deps import FlowDeps
from gatepost.flow.gateways.session_directory import SessionDirectory
from gatepost.flow.intake.chat_forks import ChatForks
from gatepost.flow.intake.intake import Intake
from gatepost.flow.people.newcomer_groups import NewcomerGroups
from gatepost.flow.people.person_erasure import PersonErasure
from gatepost.flow.requests.provider_answers import ProviderAnswers
from gatepost.flow.requests.request_loop import RequestLoop
from gatepost.flow.schedule.task_loop import TaskLoop
from gatepost.flow.sessions.session_supervisor import SessionSupervisor
from gatepost.flow.upkeep.retention import Retention


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
        requests=_make_request_loop(deps, channels, tools, answers),
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
    deps: FlowDeps, channels: ChannelAssembly, tools: ToolAssembly, answers: ProviderAnswers
) -> RequestLoop:
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
    )
