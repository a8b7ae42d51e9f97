"""signal: Signal through the daemon of signal-cli, by its JSON-RPC over HTTP.

The daemon holds the account and its keys; it is installed and linked outside of Gatepost. Everybody who reaches the
daemon's port can use the account, so it listens on loopback or behind a proxy of yours.
"""

from gatepost.channels.contract import (
    AddCheck,
    ChannelGuide,
    ChannelPace,
    declare_channel,
    make_ca_setting,
    make_read_mark_setting,
)
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature
from gatepost.messages.text_size import TextUnit

URL = setting("channels.signal.url", "http://127.0.0.1:8080", help="The address of the signal-cli daemon (--http).")
ACCOUNT = setting(
    "channels.signal.account", "", help="The account: its number as +491234567, or its id if it has no number."
)
CHECK_S = setting(
    "channels.signal.check_s", 300.0, help="How often to ask whether the account is still valid, in seconds."
)
CA_FILE = make_ca_setting("signal")

READ_MARKS = make_read_mark_setting("signal", True)

declare_channel(
    "signal",
    "gatepost.channels.signal.adapter:SignalDaemon",
    title="Signal",
    deletions_show=True,
    features=frozenset(
        {
            Feature.EDIT,
            Feature.DELETE,
            Feature.REACT,
            Feature.REPLY,
            Feature.FILES,
            Feature.MARKDOWN,
            Feature.TYPING,
            Feature.DIRECT,
        }
    ),
    settings=(URL, ACCOUNT, CA_FILE, CHECK_S, READ_MARKS),
    max_text=4000,
    text_unit=TextUnit.UTF16,
    largest_file=14 * 1024 * 1024,  # the daemon reads no longer text than 20 MB, and a file is base64 in it
    verbs=frozenset(
        {Verb.MESSAGE, Verb.MENTION, Verb.REPLY, Verb.EDIT, Verb.DELETE, Verb.LIKE, Verb.DISLIKE},
    ),
    pace=ChannelPace(everywhere=1.0, burst=20),
    deaf_after_s=90.0,
    guide=ChannelGuide(
        before="Install signal-cli, register a number for the bot or link it to one, and start"
        " `signal-cli -a +491234567 daemon --http 127.0.0.1:8080 --receive-mode on-connection`.",
        after="Write to the number from your own Signal.",
        ask=(URL, ACCOUNT),
    ),
    unchecked={
        AddCheck.SECOND_POLLER: "the daemon gives every program everything, and does not say how many there are",
        AddCheck.RIGHTS: "an account may do everything; each group decides for itself",
    },
    tested_against="our emulator of 2026-11 of signal-cli's daemon; never run against Signal itself",
)
