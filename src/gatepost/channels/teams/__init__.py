"""teams: a bot in Microsoft Teams, by the REST API of the Bot Framework. Activities come by HTTPS, signed.

Rooms are `teams:channel/<id>` (whose posts are threads), `teams:chat/<id>` and `teams:direct/<id>`, people
`teams:user/<object id>`.
"""

from gatepost.channels.contract import (
    AddCheck,
    ChannelConnection,
    ChannelGuide,
    ChannelPace,
    declare_channel,
    import_later,
    make_draft_setting,
)
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature
from gatepost.messages.text_size import TextUnit

APP_ID = setting("channels.teams.app_id", "", help="The application (client) id of the bot's registration.")
APP_SECRET = setting("channels.teams.app_secret", "", help="A client secret of that registration.", secret=True)
TENANT = setting(
    "channels.teams.tenant", "", help="The directory (tenant) id of the registration. Only its people are heard."
)
SERVICE_URLS = setting(
    "channels.teams.service_urls",
    ("https://smba.trafficmanager.net",),
    help="The only origins to which answers, and the bot's token, are sent.",
)
LOGIN_URL = setting(
    "channels.teams.login_url", "https://login.microsoftonline.com", help="The address of the login service of the bot."
)
OPENID_URL = setting(
    "channels.teams.openid_url",
    "https://login.botframework.com/v1/.well-known/openidconfiguration",
    help="The document that names the keys by which incoming activities are signed.",
)
CHECK_S = setting("channels.teams.check_s", 300.0, help="How often to try whether the secret still holds, in seconds.")

DRAFTS = make_draft_setting("teams")

declare_channel(
    "teams",
    "gatepost.channels.teams.adapter:TeamsBot",
    asks_strangers=True,
    title="Microsoft Teams",
    deletions_show=True,
    connection=ChannelConnection.ANY,
    features=frozenset(
        {
            Feature.EDIT,
            Feature.DELETE,
            Feature.THREADS,
            Feature.MARKDOWN,
            Feature.TYPING,
            Feature.CARDS,
            Feature.POST,
        }
    ),
    settings=(APP_ID, APP_SECRET, TENANT, SERVICE_URLS, LOGIN_URL, OPENID_URL, CHECK_S, DRAFTS),
    max_text=9_900,  # written as JSON in UTF-16 it may take four bytes each, and Teams takes 40 KB
    text_unit=TextUnit.UTF16,
    pace=ChannelPace(everywhere=10.0, room=1.0, burst=5),
    deaf_after_s=1200.0,
    verbs=frozenset({Verb.MESSAGE, Verb.MENTION, Verb.LIKE, Verb.DISLIKE, Verb.EDIT, Verb.DELETE, Verb.JOIN}),
    guide=ChannelGuide(
        before="In Azure, make an Azure Bot of the type Single Tenant, with the channel Microsoft Teams; make a client"
        " secret for its application.",
        after="Set the bot's messaging endpoint to <web.url>/channels/<instance>, and upload an app package that names"
        " the bot to Teams.",
        ask=(APP_ID, TENANT, APP_SECRET),
    ),
    unchecked={
        AddCheck.SECOND_POLLER: "a bot has one address for its events, which is set in Azure and told nobody",
    },
    fits_card=import_later("gatepost.channels.teams.wire:fits_card"),
    tested_against="our emulator of 2026-11; never run against Microsoft Teams",
)
