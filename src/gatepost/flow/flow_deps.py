"""What every flow of a gateway works with: given once by the app."""

from msgspec import Struct

from gatepost.core.clock import Clock
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.core.thread_pools import FairThreadPool
from gatepost.store.port import Store
from gatepost.store.secrets import SecretReader


class FlowDeps(Struct, frozen=True, kw_only=True):
    home: Home
    config: Config
    clock: Clock
    store: Store
    secrets: SecretReader
    bells: EventBus
    files: FairThreadPool
    owner: str  # this run of the daemon
