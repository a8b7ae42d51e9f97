"""The `gatepost` command. Imports next to nothing: the version is told, and a bridge is started, before anything else
is loaded."""

import gc
import os
import sys

from gatepost import __version__


def main() -> int:
    args = sys.argv[1:]
    if args == ["--version"]:
        print(f"gatepost {__version__}")
        return 0
    if args[:2] == ["bridge", "--socket"] and len(args) == 3:
        from gatepost.inside import bridge

        return bridge.main(args[2:])
    if args[:2] == ["bridge", "--url"] and args[3::2] in ([], ["--token-file"]) and len(args) in (3, 5):
        from gatepost.serve.agents import bridge as http_bridge

        return http_bridge.main(args[1:])
    os.umask(0o077)  # nothing that a command or the daemon makes is for other users, unless its mode is set
    gc.disable()  # until the command is imported: imports leave no garbage, and the search for it is a tenth of them
    from gatepost.cli import program

    return program.run(args)
