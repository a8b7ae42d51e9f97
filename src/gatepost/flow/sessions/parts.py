"""What the flow of sessions works with: given once by the app, shared by every awake session."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from gatepost.core.bells import Bells
from gatepost.core.clock import Clock, seconds
from gatepost.core.home import Home
from gatepost.core.registry import Registry
from gatepost.core.settings import Config, setting
from gatepost.egress.socket import EgressAround
from gatepost.flow.delivery.outgoing import Reach
from gatepost.flow.delivery.pump import Pump
from gatepost.flow.delivery.typing import Typing
from gatepost.flow.sessions.limits import TURN_S
from gatepost.flow.sessions.pressure import Memory, read_memory
from gatepost.flow.sessions.watch import ListeningTime, Patience
from gatepost.gate.dispatch import Dispatch
from gatepost.sandboxes.contract import SANDBOXES, SandboxKind
from gatepost.store.breaks import Policy
from gatepost.store.port import Store

PROVIDER = setting("sessions.provider", "demo", help="The provider of groups that name none.")
MOST_AWAKE = setting("sessions.most_awake", 8, help="How many sandboxes may be awake at once.")
IDLE_S = setting("sessions.idle_s", 300.0, help="A sandbox with nothing to do is stopped after this many seconds.")
SILENCE_S = setting("sessions.silence_s", 60.0, help="A runner with work that is silent for this long is ended.")
HELLO_S = setting("sessions.hello_s", 20.0, help="A sandbox whose runner says nothing for this long is ended.")
WRAP_UP_S = setting(
    "sessions.wrap_up_s", 120.0, help="How long before the end of its time an agent is told to come to a close."
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
TRANSCRIBE = setting(
    "media.transcribe", "", help="The model that makes transcripts of recordings, such as gpt-4o-mini-transcribe."
)

LEASE = 60_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    home: Home
    config: Config
    store: Store
    clock: Clock
    bells: Bells
    dispatch: Dispatch
    egress: EgressAround
    reach: Reach
    typing: Typing
    pump: Pump
    owner: str  # this run of the daemon
    listening: ListeningTime  # for every judgement of who is silent, idle or late
    files: ThreadPoolExecutor  # mailbox files are never touched on the loop or on the store's writer thread
    memory: Callable[[], Memory | None] = read_memory
    sandboxes: Registry[Callable[[Config], SandboxKind]] = field(default_factory=lambda: SANDBOXES)

    @property
    def policy(self) -> Policy:
        return Policy(
            most_tries=self.config[TRIES],
            base=seconds(self.config[RETRY_S]),
            oldest=self.clock.ago(seconds(self.config[MAX_WAIT_S])),
        )

    @property
    def patience(self) -> Patience:
        return Patience(
            silence=seconds(self.config[SILENCE_S]),
            idle=seconds(self.config[IDLE_S]),
            turn=seconds(self.config[TURN_S]),
            wrap_up=seconds(self.config[WRAP_UP_S]),
            hello=seconds(self.config[HELLO_S]),
        )
