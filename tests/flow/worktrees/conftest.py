"""An operator's repository, in a folder of which agents may see something, and a gateway that knows it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatepost.app import Gateway
from gatepost.flow.groups import make_folder
from gatepost.flow.sessions.host.host_uids import sandbox_uid
from gatepost.store.sessions import groups
from gatepost_testing.gateway import running_gateway
from gatepost_testing.repositories import repository


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """The folder that `sandbox.mounts_allowed` names."""
    (tmp_path / "code").mkdir()
    return tmp_path / "code"


@pytest.fixture
def shop(code: Path) -> Path:
    return repository(code / "shop")


@pytest.fixture
async def gateway(tmp_path: Path, code: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path / "h", sandbox__mounts_allowed=(f"{code}:rw",)) as gateway:
        await gateway.store.write(groups.add, "agents", "agents", "", gateway.clock.now())
        make_folder(gateway.home, "agents", sandbox_uid(gateway.config), name="agents")
        yield gateway
