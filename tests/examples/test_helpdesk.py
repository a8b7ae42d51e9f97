"""The help desk, played as a user plays it."""

import pytest

from .played_examples import play_example


@pytest.mark.slow
def test_a_customer_asks_the_desk_and_gets_what_its_specialists_found() -> None:
    said = play_example("helpdesk").list_answers("desk")
    assert said == [
        "Hello ann. We help with invoices and with connections: what is it about?",
        "One moment, I am asking our billing team.",
        "Here is what we found: Invoice 1041 was paid twice; 30.00 go back on Friday.",
        "One moment, I am asking our network team.",
        "We cannot say yet. One of us will write back to you.",
    ]
