"""Whose rights a message has."""

from gatepost.channels.email.wire import read_mail
from gatepost.channels.github.wire import BotNames, read_comment
from gatepost.channels.irc.wire import parse_line, read_join, read_message
from gatepost.channels.mattermost.wire import MattermostBot, MattermostRoom, read_post
from gatepost.core.settings import Config
from gatepost.flow.intake.intake import make_arrival
from gatepost.messages.inbound import Inbound, Verb
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


def test_a_name_on_github_that_somebody_else_took_over_is_somebody_else() -> None:
    """A login can be given up and taken by another person at once; the number of an account cannot."""

    def read(number: int) -> Inbound | None:
        comment = {"id": 5, "body": "/approve", "user": {"login": "ann", "id": number}, "issue_url": "x/issues/1"}
        return read_comment("acme/site", comment, BotNames("porter", "porter"))

    before, after = read(1001), read(2002)
    assert before is not None and after is not None
    assert before.sender != after.sender


def test_a_forged_copy_of_a_mail_that_comes_first_does_not_hide_the_genuine_one() -> None:
    """Whoever was written to as well knows the Message-ID. The forgery is refused and in the ledger under it, so Ann's
    own mail is a duplicate, and nobody gets it."""
    mail = b"From: ann@example.org\r\nTo: bot@example.org\r\nMessage-ID: <7@example.org>\r\n\r\nplease deploy"
    proof = b"Authentication-Results: mx.example.org; dmarc=pass header.from=example.org\r\n"
    forged = read_mail(mail, "bot@example.org", "mx.example.org", "f").inbound
    genuine = read_mail(proof + mail, "bot@example.org", "mx.example.org", "f").inbound
    assert forged is not None and genuine is not None
    assert (forged.verb, genuine.verb) == (Verb.UNTRUSTED, Verb.MESSAGE)
    assert (forged.address, forged.platform_id, forged.event) != (genuine.address, genuine.platform_id, genuine.event)
