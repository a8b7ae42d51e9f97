"""The `gatepost` command. Imports next to nothing: the version is told, and a bridge is started, before anything else
is loaded."""

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
    from gatepost.cli import program

    return program.run(args)
