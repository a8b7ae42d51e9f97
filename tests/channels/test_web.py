"""The web channel's declaration."""

from gatepost.channels import web
from gatepost.channels.contract import CHANNELS
from gatepost.messages.address import parse
from gatepost.messages.outbound import Feature


def test_web_is_always_there_and_takes_files_threads_and_keys() -> None:
    kind = CHANNELS["web"]

    assert kind.always and kind.make is web.Web
    assert {Feature.FILES, Feature.THREADS, Feature.KEYED, Feature.LOOKUP} <= kind.features


def test_its_room_and_its_owner_are_addresses_of_its_platform() -> None:
    assert {parse(web.Web.main_room).platform, parse(web.Web.owner).platform} == {"web"}
