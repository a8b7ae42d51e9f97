"""Parts that the flow of sessions works with: given once by the app, shared by every awake session."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field

from gatepost.core.clock import Clock, ListeningTime, to_microseconds
from gatepost.core.durations import Durations
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.process.thread_pools import FairThreadPool
from gatepost.core.registry import Registry
from gatepost.core.settings import Config, setting
from gatepost.egress.way_out import EgressDeps
from gatepost.flow.delivery.delivery_loop import DeliveryLoop
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.delivery.typing_indicator import TypingIndicator
from gatepost.flow.gateways.session_claims import SessionClaims, SoleGateway
from gatepost.flow.sessions.host.disk_usage import DiskUsageMeter
from gatepost.flow.sessions.host.host_shortage import HostShortage
from gatepost.flow.sessions.host.memory_pressure import HostMemory, read_memory
from gatepost.flow.sessions.host.sandbox_processes import SandboxFreezer
from gatepost.flow.sessions.runner.drafts import DraftRelay
from gatepost.flow.sessions.sandbox.group_limits import TURN_S
from gatepost.flow.sessions.session_ending import SessionTimeouts
from gatepost.flow.sessions.turn_pace import TurnPace
from gatepost.gate.dispatch import Dispatch
from gatepost.sandboxes.contract import SANDBOXES, SandboxKind
from gatepost.store.messages.file_passing import FilePassing
from gatepost.store.port import Store
from gatepost.store.sessions.turn_failures import TurnRetryPolicy

PROVIDER = setting("sessions.provider", "demo", help="The provider of groups that name none.")
MOST_AWAKE = setting("sessions.most_awake", 8, help="How many sandboxes may be awake at once.")
IDLE_S = setting("sessions.idle_s", 300.0, help="A sandbox with nothing to do is stopped after this many seconds.")
SILENCE_S = setting("sessions.silence_s", 60.0, help="A runner with work that is silent for this long is ended.")
HELLO_S = setting("sessions.hello_s", 20.0, help="A sandbox whose runner says nothing for this long is ended.")
WRAP_UP_S = setting(
    "sessions.wrap_up_s", 120.0, help="How long before the end of its time an agent is told to come to a close."
)
HOLD_SANDBOX_S = setting(
    "approvals.hold_sandbox_s",
    600.0,
    help="A turn that waits for a person's decision keeps its sandbox for so many seconds. Then it sleeps until there"
    " is one.",
)
BATCH = setting("sessions.batch", 20, help="How many waiting messages go into one turn at most.")
TRIES = setting("sessions.tries", 5, help="How often a turn is tried again that broke before the provider had it.")
RETRY_S = setting("sessions.retry_s", 5.0, help="The first wait before a broken turn is tried again; then it doubles.")
MAX_WAIT_S = setting(
    "sessions.max_wait_s",
    3600.0,
    help="How long a message waits while the host lacks something that a sandbox needs, such as room on the disk.",
)
LOOK_S = setting("sessions.look_s", 2.0, help="How often to look for work that no bell was heard for.")
WINDOW = setting("sessions.window", 10, help="How many observed messages a turn is shown at most.")
WINDOW_CHARS = setting("sessions.window_chars", 4000, help="How many characters of them at most.")

LEASE = 60_000_000


class SessionDeps(Struct, frozen=True, kw_only=True):
    home: Home
    config: Config
    store: Store
    clock: Clock
    events: EventBus
    dispatch: Dispatch
    egress: EgressDeps
    channels: ChannelInstances
    typing: TypingIndicator
    pump: DeliveryLoop
    owner: str  # this gateway; by itself, this run of it
    claims: SessionClaims = field(default_factory=SoleGateway)
    passing: FilePassing | None = None  # of files between gateways, if there may be several
    listening: ListeningTime  # for every judgement of who is silent, idle or late
    files: FairThreadPool  # mailbox files are never touched on the loop or on the store's writer thread
    freezer: SandboxFreezer = field(default_factory=SandboxFreezer)
    memory: Callable[[], HostMemory | None] = read_memory
    drafts: DraftRelay = field(default_factory=DraftRelay)
    usage: DiskUsageMeter = field(default_factory=DiskUsageMeter)
    shortage: HostShortage = field(default_factory=HostShortage)
    pace: TurnPace = field(default_factory=TurnPace)
    durations: Durations = field(default_factory=Durations)
    sandboxes: Registry[Callable[[Config], SandboxKind]] = field(default_factory=lambda: SANDBOXES)

    @property
    def disks(self) -> tuple[Path, ...]:
        """Folders that may each be on a file system of its own."""
        return self.home.path, self.home.groups, self.home.sessions, self.home.worktrees

    async def find_shortage(self) -> str:
        """Return what the machine lacks, or '' if it has enough."""
        return await self.usage.quick(self.shortage.find, self.disks)

    @property
    def policy(self) -> TurnRetryPolicy:
        return TurnRetryPolicy(
            most_tries=self.config[TRIES],
            base=to_microseconds(self.config[RETRY_S]),
            oldest=self.clock.ago(to_microseconds(self.config[MAX_WAIT_S])),
        )

    @property
    def patience(self) -> SessionTimeouts:
        return SessionTimeouts(
            silence=to_microseconds(self.config[SILENCE_S]),
            idle=to_microseconds(self.config[IDLE_S]),
            turn=to_microseconds(self.config[TURN_S]),
            wrap_up=to_microseconds(self.config[WRAP_UP_S]),
            hold=to_microseconds(self.config[HOLD_SANDBOX_S]),
            hello=to_microseconds(self.config[HELLO_S]),
        )
