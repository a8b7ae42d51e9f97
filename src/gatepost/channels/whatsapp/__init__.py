"""whatsapp: the WhatsApp Business Platform (Cloud API). Rooms are private chats and groups; Meta sends events to us.

It has no edits and no deletions, and only groups that the business made. The bot's messages reach people within 24
hours of their last message; later only a template that Meta has approved does.
"""

from gatepost.channels.contract import (
    ChannelConnection,
    ChannelGuide,
    ChannelPace,
    declare_channel,
    import_later,
    make_read_mark_setting,
)
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature

PHONE_NUMBER_ID = setting(
    "channels.whatsapp.phone_number_id", "", help="The id of the business number, as the app's API Setup shows it."
)
TOKEN = setting(
    "channels.whatsapp.token",
    "",
    help="The access token of a system user, with whatsapp_business_messaging and whatsapp_business_management.",
    secret=True,
)
APP_SECRET = setting(
    "channels.whatsapp.app_secret", "", help="The app's secret, which signs what Meta sends to us.", secret=True
)
VERIFY_TOKEN = setting(
    "channels.whatsapp.verify_token",
    "",
    help="A word of your own that you also type into the app's webhook settings.",
    secret=True,
)
TEMPLATE = setting(
    "channels.whatsapp.template",
    "",
    help="An approved template with one text parameter, for what is said later than 24 hours after a person's last"
    " message (empty: such messages fail).",
)
TEMPLATE_LANGUAGE = setting("channels.whatsapp.template_language", "en", help="The language code of that template.")
API_URL = setting(
    "channels.whatsapp.api_url", "https://graph.facebook.com/v26.0", help="The Graph API, with its version."
)
CHECK_S = setting(
    "channels.whatsapp.check_s", 300.0, help="How often to ask whether the token is still accepted, in seconds."
)

READ_MARKS = make_read_mark_setting("whatsapp", True)  # without it there is no sign of typing, which is one

declare_channel(
    "whatsapp",
    "gatepost.channels.whatsapp.adapter:WhatsAppCloud",
    asks_strangers=True,
    title="WhatsApp",
    connection=ChannelConnection.ANY,
    features=frozenset(
        {
            Feature.REACT,
            Feature.REPLY,
            Feature.FILES,
            Feature.VOICE,
            Feature.FORWARD,
            Feature.MARKDOWN,
            Feature.TYPING,
            Feature.CARDS,
            Feature.LOOKUP,
        }
    ),
    settings=(
        PHONE_NUMBER_ID,
        TOKEN,
        APP_SECRET,
        VERIFY_TOKEN,
        TEMPLATE,
        TEMPLATE_LANGUAGE,
        API_URL,
        CHECK_S,
        READ_MARKS,
    ),
    max_text=4096,
    largest_file=100 * 1024 * 1024,
    verbs=frozenset({Verb.MESSAGE, Verb.REPLY, Verb.LIKE, Verb.DISLIKE}),
    pace=ChannelPace(everywhere=80.0, room=1 / 6, burst=30),
    deaf_after_s=1200.0,
    guide=ChannelGuide(
        before="Make an app with the product WhatsApp at developers.facebook.com. Its page API Setup shows the phone"
        " number id; a system user of the business gives a token that does not expire.",
        after="In the app, under WhatsApp > Configuration, set the callback URL to <web.url>/channels/<instance> and"
        " the verify token to the word that you chose, then subscribe to the field messages. The address must be"
        " reachable from the internet over https.",
        ask=(PHONE_NUMBER_ID, TOKEN, APP_SECRET, VERIFY_TOKEN),
    ),
    fits_card=import_later("gatepost.channels.whatsapp.wire:fits_card"),
    explain_reaction=import_later("gatepost.channels.whatsapp.wire:explain_reaction"),
    tested_against="our emulator of 2026-11; never run against WhatsApp itself",
)
