"""A real Postfix refuses what its double refuses, with the same code and words."""

import smtplib
import ssl
from pathlib import Path

import pytest

from gatepost_testing.certificates import ThrowawayAuthority
from gatepost_testing.platform_rules.email import BY_NAME
from gatepost_testing.servers.mail_server import PASSWORD
from gatepost_testing.servers.postfix import HOST, PostfixPlatform, find_postfix
from gatepost_testing.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_postfix() is None, reason="Postfix is not installed: scripts/system_packages.py --all"),
]
SAME = ("sender before recipients", "one sender", "some recipient", "mail size", "known command")


def test_postfix_refuses_in_the_words_of_the_rules(tmp_path: Path) -> None:
    authority = ThrowawayAuthority(tmp_path)
    with PostfixPlatform(authority) as platform:
        tls = ssl.create_default_context(cafile=authority.ca_file)
        for name in SAME:
            with smtplib.SMTP_SSL(HOST, platform.postfix.port, timeout=PATIENCE_S, context=tls) as client:
                client.login("bot", PASSWORD)
                for line in BY_NAME[name].call[1]["$lines"]:
                    answer = client.docmd(line)
            assert (name, answer[0], answer[1].decode()) == (name, BY_NAME[name].status, BY_NAME[name].refusal)
