"""The channels of a gateway put together: the instances, who looks after them, and the delivery of what goes out."""

from collections.abc import Mapping

from msgspec import Struct

from gatepost.channels.contract import CHANNELS, Channel, ChannelDeps, ChannelKind, SpecOrigin
from gatepost.flow.channel_supervisor import ChannelSupervisor, ChannelSurroundings
from gatepost.flow.delivery.delivery_loop import DeliveryLoop
from gatepost.flow.delivery.growing_messages import GrowingMessages
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.delivery.typing_indicator import TypingIndicator
from gatepost.flow.flow_deps import FlowDeps
from gatepost.flow.intake.engagement import TTL_S
from gatepost.flow.sessions.runner.drafts import DraftRelay
from gatepost.flow.sessions.sandbox.sandbox_requirements import follow_channels


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
    channels = ChannelInstances(kinds, adapters, deps.config[TTL_S])
    typing = TypingIndicator(adapters, channels)
    drafts = DraftRelay(adapters, GrowingMessages(deps.store, deps.clock, channels, deps.events), channels.shows_drafts)
    channels.get_draft = drafts.get_text
    pump = DeliveryLoop(deps.store, deps.clock, deps.config, adapters, channels, deps.events, deps.owner, deps.duties)
    pump.may_act = deps.may_act
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
