"""The app: what is known once its plug-ins are loaded."""

import subprocess
import sys
from pathlib import Path

from gatepost_testing.waiting import PATIENCE_S


def test_a_gateway_that_serves_nothing_knows_every_setting_but_those_of_channels_that_nobody_added(
    tmp_path: Path,
) -> None:
    """Else the next start would call a setting unknown that a command has just set."""
    code = (
        "import sys; from pathlib import Path\n"
        "from gatepost.app import load_plugins\n"
        "from gatepost.core.home import Home\n"
        "from gatepost.core.settings import SETTINGS\n"
        "load_plugins(Home(Path(sys.argv[1])))\n"
        "known = set(SETTINGS)\n"
        "from gatepost import declarations\n"
        "declarations.load_package()\n"
        "late = sorted(each for each in set(SETTINGS) - known if not each.startswith('channels.'))\n"
        "print('web.hosts' in known, *late)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stdout.split() == ["True"]
