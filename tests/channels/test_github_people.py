"""Whose rights a message has."""

from gatepost.channels.github.wire import BotNames, read_comment
from gatepost.messages.inbound import Inbound


def test_a_name_on_github_that_somebody_else_took_over_is_somebody_else() -> None:
    """A login can be given up and taken by another person at once; the number of an account cannot."""

    def read(number: int) -> Inbound | None:
        comment = {"id": 5, "body": "/approve", "user": {"login": "ann", "id": number}, "issue_url": "x/issues/1"}
        return read_comment("acme/site", comment, BotNames("porter", "porter"))

    before, after = read(1001), read(2002)
    assert before is not None and after is not None
    assert before.sender != after.sender
