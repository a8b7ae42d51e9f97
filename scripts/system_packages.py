"""Installs the programs that some tests need, where it may: as root or with sudo that asks for no password, by apt.

Elsewhere it says what is missing. The tests that need it are then skipped, and pytest lists each of them by name.
"""

import os
import shutil
import subprocess
import sys

PACKAGES = {  # Debian package → the programs it brings, any of which will do
    "bubblewrap": ("bwrap",),
    "socat": ("socat",),
    "util-linux": ("setpriv",),
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
}
ENGINES = {  # with --all only: they take long to install and to run
    "podman": ("podman",),
    "runc": ("runc",),
    "catatonit": ("catatonit",),
    "uidmap": ("newuidmap",),
}
WHAT_FOR = {
    "bubblewrap": "agents in a real sandbox",
    "socat": "socat in the bridge's place",
    "util-linux": "sandboxes of a gateway that runs as root",
    "chromium": "the web page in a real browser",
    **dict.fromkeys(ENGINES, "agents in containers"),
}


def missing(packages: dict[str, tuple[str, ...]]) -> list[str]:
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    return [package for package, names in packages.items() if not any(shutil.which(name, path=path) for name in names)]


def as_root() -> list[str] | None:
    """What to put before a command so that root runs it; None if nobody may."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode == 0:
        return ["sudo", "-n"]
    return None


def install(packages: list[str], root: list[str]) -> None:
    """One by one, so that one that this system does not have keeps nobody from the others."""
    print(f"setup: installing {' '.join(packages)}", flush=True)
    get = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    subprocess.run([*get, "update"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for package in packages:
        command = [*get, "install", "-y", "--no-install-recommends", package]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> int:
    packages = {**PACKAGES, **ENGINES} if "--all" in sys.argv[1:] else PACKAGES
    wanted = missing(packages) if sys.platform.startswith("linux") else []
    root = as_root() if wanted and shutil.which("apt-get") else None
    if wanted and root is not None:
        install(wanted, root)
    for package in missing(packages):
        print(f"setup: {package} is not here, the tests of {WHAT_FOR[package]} will be skipped", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
