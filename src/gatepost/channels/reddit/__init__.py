"""reddit: an account of Reddit, by a script app. Its inbox is asked for; subreddits can be watched, too.

`reddit:<subreddit>/post/<id>` is a post with its comments, each comment at its top a thread; `reddit:direct/<name>` are
private messages with one person. People are `reddit:user/<name>`.
"""

from gatepost.channels.contract import AddCheck, ChannelGuide, ChannelPace, declare_channel
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature

CLIENT_ID = setting("channels.reddit.client_id", "", help="The id of the script app, as Reddit shows it.")
CLIENT_SECRET = setting("channels.reddit.client_secret", "", help="The secret of the script app.", secret=True)
USERNAME = setting("channels.reddit.username", "", help="The name of the bot's account, without u/.")
PASSWORD = setting(
    "channels.reddit.password", "", help="The password of the account (empty: there is a refresh token).", secret=True
)
REFRESH_TOKEN = setting(
    "channels.reddit.refresh_token",
    "",
    help="A permanent refresh token, in place of the password; an account with two-factor login needs one.",
    secret=True,
)
SUBREDDITS = setting(
    "channels.reddit.subreddits",
    (),
    help="Subreddits of which every post and comment is received (empty: only mentions, replies and messages).",
)
POLL_S = setting("channels.reddit.poll_s", 30.0, help="How often to ask for news, in seconds.")
SETTLE_S = setting(
    "channels.reddit.settle_s",
    30.0,
    help="How long Reddit may take to list a comment. One that is not listed by then was not made.",
)
API_URL = setting("channels.reddit.api_url", "https://oauth.reddit.com", help="The API.")
TOKEN_URL = setting("channels.reddit.token_url", "https://www.reddit.com", help="The address that gives access tokens.")

declare_channel(
    "reddit",
    "gatepost.channels.reddit.adapter:RedditAccount",
    title="Reddit",
    features=frozenset(
        {
            Feature.EDIT,
            Feature.DELETE,
            Feature.REPLY,
            Feature.THREADS,
            Feature.MARKDOWN,
            Feature.LOOKUP,
            Feature.DIRECT,
            Feature.HISTORY,
            Feature.POST,
        }
    ),
    settings=(
        CLIENT_ID,
        CLIENT_SECRET,
        USERNAME,
        PASSWORD,
        REFRESH_TOKEN,
        SUBREDDITS,
        POLL_S,
        SETTLE_S,
        API_URL,
        TOKEN_URL,
    ),
    max_text=9_500,  # of 10,000: escapes and line breaks make a text longer
    pace=ChannelPace(everywhere=0.5, burst=3),
    deaf_after_s=1200.0,  # a window whose requests are used up has up to ten minutes
    verbs=frozenset({Verb.MESSAGE, Verb.MENTION, Verb.REPLY}),
    guide=ChannelGuide(
        before="Reddit has to approve every new use of its API: ask for it first. Then make an app of the type script"
        " at https://www.reddit.com/prefs/apps, with the bot's own account. Enter its password, or a refresh token with"
        " the scopes identity, read, history, privatemessages, submit and edit.",
        after="Mention the account in a comment as u/name, or write it a message.",
        ask=(CLIENT_ID, CLIENT_SECRET, USERNAME, PASSWORD, REFRESH_TOKEN, SUBREDDITS),
        optional=(PASSWORD, REFRESH_TOKEN),
    ),
    unchecked={
        AddCheck.SECOND_POLLER: "Reddit does not tell whether another program reads the inbox, too",
    },
    tested_against="our emulator of 2026-11, with PRAW 8.0; never run against Reddit",
)
