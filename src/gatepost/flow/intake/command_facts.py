"""Facts that a command may need and that no transaction reads: settings, files of the home, the page's address."""

from msgspec import Struct, field

from gatepost.core.settings import Config
from gatepost.flow.sessions.provider_choices import ProviderChoices


class CommandFacts(Struct, frozen=True, kw_only=True):
    """Read before the transaction of the message. `page`: where the web page is, '' if it is not served."""

    config: Config = field(default_factory=Config)
    page: str = ""
    choices: ProviderChoices = field(default_factory=ProviderChoices)
