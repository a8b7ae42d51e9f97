"""The key ring of two gateways: a rotation that would shut one of them out is refused, and the way out works."""

import shutil
from pathlib import Path

import pytest

from gatepost.core.keyring import FILE
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.storms.storm import QUICK, run_command
from gatepost_testing.waiting import block_until

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
]


def test_keys_are_rotated_while_one_of_two_gateways_serves(tmp_path: Path) -> None:
    with Cluster(tmp_path, ("a", "b"), **QUICK) as cluster:
        one, other = cluster["a"], cluster["b"]
        run_command(one, "secret", "set", "CHANNEL_TELEGRAM_TOKEN", "old-value")
        cluster.share_keys()
        before = (one.home / FILE).read_bytes()
        one.start()
        other.start()

        for each in (one, other):
            refused = each.gatepost("secret", "rotate")
            assert refused.returncode == 1 and "would open no secret any more" in refused.stderr
        assert (one.home / FILE).read_bytes() == (other.home / FILE).read_bytes() == before

        run_command(one, "gateway", "drain", "b")
        block_until(lambda: not other.is_running, "it to drain")
        other.stop()
        run_command(one, "secret", "rotate")

        with pytest.raises(AssertionError, match="did not start") as error:
            other.start()
        assert "copy keyring.json" in str(error.value)
        other.stop()
        shutil.copy(one.home / FILE, other.home / FILE)  # it has the new key alone, as the one that it joins
        other.start()
        run_command(other, "secret", "set", "ANOTHER", "another-value")
        sealed = cluster.query("SELECT DISTINCT key_id FROM secrets")
        assert len(sealed) == 1 and sealed[0][0] in (other.home / FILE).read_text()
