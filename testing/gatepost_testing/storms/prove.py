"""`make prove`: run storms in their whole size and say what they counted, a line each. Exit 1 if one fails.

python -m gatepost_testing.storms.prove --mode gateways --seed 7
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from gatepost.core.errors import SetupError
from gatepost_testing.storms import damage as storm_damage
from gatepost_testing.storms import mixed as storm_random
from gatepost_testing.storms import restore as storm_restore
from gatepost_testing.storms.storm import MODE, SEED, Storm, list_overtimes, load_storms

# By the name of a planted fault, the storm that must see it.
BROKEN: dict[str, Storm] = {
    **{name: partial(storm_random.run_random_storm, fault=name) for name in storm_random.FAULTS},
    **{name: partial(storm_restore.run_restore_storm, fault=name, rounds=4) for name in storm_restore.FAULTS},
    **{name: partial(storm_damage.run_damage_storm, fault=name) for name in storm_damage.FAULTS},
}


def parse_arguments(argv: Sequence[str], modes: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="prove", description="Run storms, and say what they counted.")
    parser.add_argument("--mode", choices=modes, default=MODE, help="which storms")
    parser.add_argument("--seed", type=int, default=SEED, help="by which people write")
    parser.add_argument("--only", default="", help="storms whose name has this in it")
    parser.add_argument("--break", dest="fault", choices=sorted(BROKEN), help="plant a fault: the storm must fail")
    return parser.parse_args(argv)


def run_storms(storms: dict[str, Storm], seed: int, say: Callable[[str], None]) -> int:
    """Run the storms and return how many failed. One that takes longer than its limit fails, too."""
    failed = 0
    for name, run in storms.items():
        begun = time.monotonic()
        faults, counted = _run(run, seed)
        failed += bool(faults)
        verdict = "FAILED" if faults else "ok"
        say(f"{verdict:<7} {name}: {counted} [{time.monotonic() - begun:.0f} s]")
        for fault in faults:
            say(f"        {fault}")
    return failed


def _run(run: Storm, seed: int) -> tuple[list[str], str]:
    """Return what went wrong, and what was counted."""
    with tempfile.TemporaryDirectory(prefix="gatepost-prove-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # agents have accounts of their own
        try:
            result = run(Path(folder), seed)
        except (AssertionError, OSError, SetupError) as error:
            return [str(error) or type(error).__name__], f"seed {seed}, broke off"
    return [*result.list_faults(), *list_overtimes(result)], result.render()


def main(argv: Sequence[str]) -> int:
    found = load_storms()
    asked = parse_arguments(argv, sorted(found))
    chosen = {name: run for name, run in found[asked.mode].items() if asked.only in name}
    if asked.fault:
        chosen = {f"with {asked.fault}": BROKEN[asked.fault]}
    if not chosen:
        _print_line(
            f"no storm of mode {asked.mode} has {asked.only!r} in its name; there are: {', '.join(found[asked.mode])}"
        )
        return 1
    failed = run_storms(chosen, asked.seed, _print_line)
    _print_line(f"{len(chosen)} storm{'' if len(chosen) == 1 else 's'}, {failed} failed")
    return 1 if failed else 0


def _print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
