"""The daemon takes as many descriptors as it may have."""

import subprocess
import sys

RAISED = """
import resource
from gatepost.daemon import raise_descriptor_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512))
print(raise_descriptor_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_stranger_05_the_soft_limit_is_raised_to_the_hard_one() -> None:
    done = subprocess.run([sys.executable, "-c", RAISED], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["512", "512", "512"]
