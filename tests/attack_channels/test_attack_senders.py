"""Whose rights a message has."""

from gatepost.channels.irc.wire import parse_line, read_join, read_message
from gatepost.channels.mattermost.wire import MattermostBot, MattermostRoom, read_post
from gatepost.core.settings import Config
from gatepost.flow.intake.intake import make_arrival
from gatepost.messages.inbound import Inbound
from gatepost.messages.untrusted import is_untrusted

BOT, OWNER, POST, ROOM = "b" * 26, "o" * 26, "p" * 26, "r" * 26


def test_a_post_of_an_incoming_webhook_has_not_the_rights_of_who_made_the_webhook() -> None:
    """Mattermost gives such posts the `user_id` of the webhook's creator, and `from_webhook` in their props."""
    post = {
        "id": POST,
        "user_id": OWNER,
        "message": "/approve",
        "props": {"from_webhook": "true", "override_username": "alerts", "webhook_display_name": "alerts"},
    }
    read = read_post(post, MattermostRoom(ROOM), MattermostBot(BOT, "porter"), lambda file: None)  # type: ignore[arg-type,return-value]
    assert read is None or read.sender != f"mattermost:user/{OWNER}"


def _say(account: str) -> Inbound:
    line = parse_line(f"@account={account} :nick!u@h PRIVMSG #team :hello\r\n".encode())
    read = read_message(line, "porter", "1", False)
    assert read is not None
    return read


def test_two_accounts_of_irc_are_two_people() -> None:
    """Networks with CASEMAPPING=ascii tell `bob[1]` from `bob{1}`, and no network takes the Kelvin sign for a k."""
    assert _say("bob[1]").sender != _say("bob{1}").sender
    assert _say("\u212aate").sender != _say("Kate").sender


def test_a_join_under_an_unproven_nick_is_untrusted_as_a_message_is() -> None:
    joined = read_join(parse_line(b":ann!u@h JOIN #team\r\n"), "porter", "1")
    assert joined is not None
    assert is_untrusted(make_arrival("irc", joined, Config(), 1, 0).inbound.sender)
