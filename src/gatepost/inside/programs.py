"""The programs of others that a provider drives, as they are found inside the sandbox."""

import os
import shutil

from gatepost.inside.providers.contract import Misconfigured

FOLDER = "/opt/gatepost/bin"  # where the host mounts those that it was told of


def find(name: str) -> str:
    """The path of a program inside."""
    mounted = os.path.join(FOLDER, name)
    found = mounted if os.access(mounted, os.X_OK) else shutil.which(name)
    if found is None:
        raise Misconfigured(
            f"the program {name} is not here: gatepost connect {name}, or name it in the setting `programs`"
        )
    return found
