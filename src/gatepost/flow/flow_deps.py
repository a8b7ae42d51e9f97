"""The parts that every flow of a gateway works with: given once by the app."""

from msgspec import Struct, field

from gatepost.core.clock import Clock
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.process.fencing import FenceCheck, always
from gatepost.core.process.thread_pools import FairThreadPool
from gatepost.core.settings import Config
from gatepost.flow.gateways.duties import Duties
from gatepost.flow.gateways.session_claims import SessionClaims, SoleGateway
from gatepost.flow.sessions.host.sandbox_freezer import SandboxFreezer
from gatepost.store.messages.file_passing import FilePassing
from gatepost.store.port import Store
from gatepost.store.rights.secrets import SecretReader


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
