"""remote: a channel whose adapter is a program elsewhere, in any language. It calls us by HTTP and shows a token.

The name of the instance is the platform's name in its addresses, so a program can never speak for the people of another
channel. The settings of the instance name its features: `OFFERED` is the most that there is.
"""

from gatepost.channels.contract import AddCheck, ChannelGuide, ChannelKind, declare_channel
from gatepost.core.errors import SetupError, did_you_mean
from gatepost.core.records import replace
from gatepost.core.settings import Config, setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature

FEATURES = setting(
    "channels.remote.features", (), help="Features of the program, such as edit, files, threads, keyed; see its page."
)
MAX_TEXT = setting(
    "channels.remote.max_text", 0, help="The longest text of one message, in characters; 0: there is no limit."
)
LARGEST_FILE = setting(
    "channels.remote.largest_file", 20 * 1024 * 1024, help="The largest file that comes or goes, in bytes."
)
ANSWER_S = setting(
    "channels.remote.answer_s",
    20.0,
    help="A program that took an effect and did not answer for so long may have done it. Less than delivery.timeout_s.",
)

# There is no history: it would need a protocol for old messages.
OFFERED = frozenset(Feature) - {Feature.HISTORY}


def parse_features(names: tuple[str, ...]) -> frozenset[Feature]:
    known = {str(each): each for each in OFFERED}
    for name in names:
        if name not in known:
            near = did_you_mean(name, known) or f"; there are: {', '.join(sorted(known))}"
            raise SetupError(f"a program has no feature {name!r}{near}")
    return frozenset(known[name] for name in names)


def tailor(kind: ChannelKind, instance: str, config: Config) -> ChannelKind:
    return replace(
        kind,
        name=instance,
        features=parse_features(config[FEATURES]),
        max_text=config[MAX_TEXT],
        largest_file=config[LARGEST_FILE],
    )


declare_channel(
    "remote",
    "gatepost.channels.remote.adapter:RemoteProgram",
    title="A program elsewhere",
    features=OFFERED,
    settings=(FEATURES, MAX_TEXT, LARGEST_FILE, ANSWER_S),
    verbs=frozenset(Verb),
    guide=ChannelGuide(
        after="`gatepost channel token <instance>` prints the token for the program. It calls"
        " <web.url>/channels/<instance>; docs/extend/adapter-protocol.md has every field.",
    ),
    unchecked={
        AddCheck.TOKEN: "the program calls the gateway, with a token of the gateway",
        AddCheck.NETWORK: "the program calls the gateway, with a token of the gateway",
        AddCheck.SECOND_POLLER: "a newer program takes the place of the older, which is told so",
        AddCheck.RIGHTS: "the program calls the gateway, with a token of the gateway",
    },
    tested_against="a program in JavaScript, over HTTP",
    deaf_after_s=90.0,
    tailor=tailor,
)
