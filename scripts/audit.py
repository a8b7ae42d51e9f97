"""`make audit`: looks up what is locked among known vulnerabilities, with pip-audit in an environment of its own.

It asks a service of advisories over the network. Where none can be reached, it says that it was skipped and fails
nothing. It takes five minutes at most.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from lock import LOCKS
from system_packages import PROGRAMS, install_apart

ROOT = Path(__file__).resolve().parent.parent
PIP_AUDIT = "pip-audit==2.10.1"
MOST_S = 300
ANSWER_S = 15  # of one request
SKIPPED = "audit: skipped, because {}"


def run(program: Path, locks: list[Path]) -> tuple[Any, str]:
    """Return what pip-audit found, and '', or None and why it found nothing out."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [str(program), "--require-hashes", "--disable-pip", "--progress-spinner=off", f"--timeout={ANSWER_S}"]
        command += ["--format=json", f"--output={found}", *(f"--requirement={each}" for each in locks)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=MOST_S)
        except subprocess.TimeoutExpired:
            return None, f"no service of advisories answered within {MOST_S:g} s"
        except OSError as error:
            return None, f"{program.name} cannot be run: {error.strerror}"
        if not found.is_file():  # it is written once every package was looked up
            last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
            return None, f"no service of advisories could be asked ({last[:300]})"
        return json.loads(found.read_text(encoding="utf-8")), ""


class Audited(NamedTuple):
    """`lines`: one for each vulnerability. `missed`: packages that the service does not know, as a mirror may not."""

    lines: list[str]
    count: int
    missed: list[str]


def render(found: Any) -> Audited:
    lines = []
    for package in found["dependencies"]:
        for each in package.get("vulns", ()):
            fixed = ", ".join(each.get("fix_versions", ())) or "no version yet"
            lines.append(f"{package['name']} {package['version']}: {each['id']}, mended in {fixed}")
    missed = sorted(each["name"] for each in found["dependencies"] if "version" not in each)
    return Audited(lines, len(found["dependencies"]) - len(missed), missed)


def main() -> int:
    if not install_apart("pip-audit", PIP_AUDIT, "pip-audit"):
        print(SKIPPED.format(f"{PIP_AUDIT} cannot be installed from the index of this machine"))
        return 0
    found, why = run(PROGRAMS / "pip-audit" / "bin" / "pip-audit", [ROOT / name for name in LOCKS])
    if found is None:
        print(SKIPPED.format(why))
        return 0
    audited = render(found)
    if not audited.count:  # what answers is a mirror, which has packages and no advisories: that is no all-clear
        print(SKIPPED.format(f"the service that answered knows none of the {len(audited.missed)} packages"))
        return 0
    lines = [*audited.lines, *(f"{each}: the service does not know it" for each in audited.missed)]
    last = f"audit: {audited.count} packages were looked up, {len(audited.lines)} vulnerabilities are known"
    print("\n".join([*lines, last]))
    return 1 if audited.lines else 0


if __name__ == "__main__":
    sys.exit(main())
