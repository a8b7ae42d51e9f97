"""The command by which a client on this machine starts one of our bridges. Standard library alone."""

import os
import sys


def bridge_command(module: str, *words: str) -> list[str]:
    """Start `main` of a module, without the packages of the site.

    The command imports the module instead of running it as a script: Python keeps the compiled form of modules alone.
    """
    start = f"import sys; sys.path.append(sys.argv.pop(1)); import {module} as bridge; "
    source = os.path.abspath(__file__ + "/../../..")
    return [sys.executable, "-I", "-S", "-c", f"{start}sys.exit(bridge.main(sys.argv[1:]))", source, *words]
