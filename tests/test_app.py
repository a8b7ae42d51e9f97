"""The app: what is known once its plug-ins are loaded."""

import subprocess
import sys
from pathlib import Path

from gatepost_testing.waiting import PATIENCE_S


def test_a_gateway_that_serves_nothing_knows_every_setting_of_the_daemon(tmp_path: Path) -> None:
    """Else a command that runs without the daemon would call a setting of the web page unknown."""
    code = (
        "import sys; from pathlib import Path\n"
        "from gatepost.app import load_plugins\n"
        "from gatepost.core.home import Home\n"
        "from gatepost.core.settings import SETTINGS\n"
        "load_plugins(Home(Path(sys.argv[1])))\n"
        "known = set(SETTINGS)\n"
        "import gatepost.daemon\n"
        "from gatepost.core.registry import load_package\n"
        "load_package('gatepost.serve.web.signin'); load_package('gatepost.serve.web.pages')\n"
        "print('web.hosts' in known, *sorted(set(SETTINGS) - known))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stdout.split() == ["True"]
