"""HTTP to a platform: its address is checked, and no error shows what stands behind the host."""

import pytest

from gatepost.channels.contract import ChannelDeps, ChannelEnded, EndReason
from gatepost.channels.kit.http import PlatformHttp, check_web_address
from gatepost.channels.telegram.api import TelegramApi
from gatepost.core.settings import Config
from gatepost.testing.clock import FixedClock

KEY = "123456:hush-hush-hush-hush"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("127.0.0.1:1", "'127.0.0.1:1'"),
        ("ftp://x", "'ftp://x'"),
        ("", "''"),
        ("http://", "'http://'"),
        ("http://[x", "'http://[x'"),
        ("http://x:port", "'http://x:port'"),
        (f"ftp://{KEY}@x", "'ftp://x'"),
    ],
)
def test_an_address_that_is_none_is_named_without_what_follows_the_host(address: str, shown: str) -> None:
    with pytest.raises(ChannelEnded, match="is no web address; write it as https://host") as plain:
        check_web_address(address)
    assert plain.value.reason is EndReason.SETTING and shown in str(plain.value)
    around = ChannelDeps(instance="telegram", config=Config(), clock=FixedClock())
    with pytest.raises(ChannelEnded) as joined:
        TelegramApi(address, KEY, around)
    with pytest.raises(ChannelEnded) as whole:
        PlatformHttp("Telegram", f"{address}/bot{KEY}/")
    assert KEY not in f"{plain.value} {joined.value} {whole.value}"
