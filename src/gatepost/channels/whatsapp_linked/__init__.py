"""whatsapp_linked: WhatsApp as a device that is linked to somebody's account, as WhatsApp Web is.

WhatsApp allows this to nobody, and has banned numbers for it: `accept_risk` must be set. The library (neonize) runs
in a process of its own, because a fault in it ends its whole process.
"""

from gatepost.channels.contract import AddCheck, ChannelGuide, ChannelPace, declare_channel
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature

ACCEPT_RISK = setting(
    "channels.whatsapp_linked.accept_risk",
    False,
    help="WhatsApp allows no programs on linked devices and has banned numbers for them, also ones that only answer."
    " Set it to true if the loss of this number is acceptable.",
)
PHONE = setting(
    "channels.whatsapp_linked.phone",
    "",
    help="The number of the account as 491512345678, to link the device by a code (empty: by a QR code).",
)
EMULATOR = setting(
    "channels.whatsapp_linked.emulator",
    "",
    help="The address of an emulated device on this machine, as 127.0.0.1:8080, for tests (empty: WhatsApp itself).",
)
LARGEST_FILE = 64 * 1024 * 1024  # the library has a file whole in memory, in its own process

declare_channel(
    "whatsapp_linked",
    "gatepost.channels.whatsapp_linked.adapter:WhatsAppLinked",
    title="WhatsApp (linked device)",
    deletions_show=True,
    features=frozenset(
        {
            Feature.EDIT,
            Feature.DELETE,
            Feature.REACT,
            Feature.REPLY,
            Feature.FILES,
            Feature.VOICE,
            Feature.FORWARD,
            Feature.MARKDOWN,
            Feature.TYPING,
            Feature.DIRECT,
        }
    ),
    settings=(ACCEPT_RISK, PHONE, EMULATOR),
    max_text=4096,
    largest_file=LARGEST_FILE,
    verbs=frozenset(
        {Verb.MESSAGE, Verb.MENTION, Verb.REPLY, Verb.EDIT, Verb.DELETE, Verb.LIKE, Verb.DISLIKE, Verb.JOIN}
    ),
    pace=ChannelPace(everywhere=1.0, room=0.5, burst=5),
    deaf_after_s=120.0,
    guide=ChannelGuide(
        before="Numbers were banned for programs on linked devices, also for low volumes. Use a number whose loss is"
        " acceptable, and set accept_risk to true. The Cloud API (`gatepost channel add whatsapp`) has no such risk.",
        after="`gatepost channel logs <instance>` shows a code, or the file with a QR code. On the phone: Settings >"
        " Linked devices > Link a device.",
        ask=(ACCEPT_RISK, PHONE),
        optional=(PHONE,),
    ),
    unchecked={
        AddCheck.TOKEN: "the device is linked after it was added; `gatepost channel logs` tells then",
        AddCheck.NETWORK: "the device is linked after it was added; `gatepost channel logs` tells then",
        AddCheck.SECOND_POLLER: "the device is linked after it was added; `gatepost channel logs` tells then",
        AddCheck.RIGHTS: "the device is linked after it was added; `gatepost channel logs` tells then",
    },
    tested_against="our emulated device of 2026-11; never linked to WhatsApp itself",
    extra="whatsapp-linked",
)
