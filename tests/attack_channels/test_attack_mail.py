"""A mail of a stranger that stops the channel, or loses words of somebody else."""

import time

from gatepost.channels.email.mail_text import read_html
from gatepost.channels.email.wire import read_mail

HEAD = b"From: eve@evil.example\r\nTo: bot@example.org\r\nMessage-ID: <1@evil.example>\r\n"


def test_a_long_parameter_of_a_header_is_read_in_linear_time() -> None:
    """The standard library counts the quotation marks anew for each semicolon; 20 kB take over a second, 100 kB half a
    minute, 400 kB longer than `deaf_after_s`. Then the listener starts again, with the same mail."""
    mail = HEAD + b'Content-Type: text/plain; charset="' + b";" * 20_000 + b'"\r\n\r\nhello'
    begun = time.process_time()
    read_mail(mail, "bot@example.org", "", "uid.1.1")
    assert time.process_time() - begun < 0.3


def test_words_behind_a_hidden_element_are_whole_whatever_letters_stand_before_it() -> None:
    """`İ`.lower() has two signs, so places in the lowered text are not those of the text."""
    assert read_html("<p>" + "İ" * 20 + "</p><style>p {}</style>pay 100 to Ann") == "İ" * 20 + "\npay 100 to Ann"
