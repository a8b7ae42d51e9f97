"""The container that a process is in, read from trees of files that engines make."""

from pathlib import Path

import pytest

from gatepost.core.process.container import Confinement, ContainerEngine, find_engine, read_confinement

PLAIN = "22 27 0:20 / /proc rw,nosuid - proc proc rw"
MASKED = "\n".join(
    (
        "731 725 0:137 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw",
        "744 731 0:137 /sys /proc/sys ro,nosuid,nodev,noexec,relatime - proc proc rw",
        "747 731 0:138 /null /proc/kcore rw,nosuid - tmpfs tmpfs rw,size=65536k",
    )
)


def make_root(folder: Path, **files: str) -> Path:
    for name, text in {
        "proc/self/cgroup": "0::/\n",
        **{key.replace("__", "/"): text for key, text in files.items()},
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("name", "text", "engine"),
    [
        ("run/.containerenv", "", ContainerEngine.PODMAN),
        (".dockerenv", "", ContainerEngine.DOCKER),
        ("proc/self/cgroup", "4:memory:/machine.slice/libpod-5e2697f8.scope\n", ContainerEngine.PODMAN),
        ("proc/self/cgroup", "0::/docker/5e2697f8\n", ContainerEngine.DOCKER),
        ("proc/self/cgroup", "0::/user.slice/user-1000.slice\n", ContainerEngine.NONE),
        ("etc/passwd", "", ContainerEngine.NONE),
    ],
)
def test_a_container_is_known_by_what_its_engine_leaves_in_it(
    tmp_path: Path, name: str, text: str, engine: ContainerEngine
) -> None:
    assert find_engine(make_root(tmp_path, **{name: text})) is engine


def test_what_confines_a_container_is_read(tmp_path: Path) -> None:
    usual = make_root(
        tmp_path / "usual",
        **{
            "run/.containerenv": "",
            "proc/self/status": "Name:\tpython\nSeccomp:\t2\nSeccomp_filters:\t1\n",
            "proc/self/mountinfo": MASKED,
            "proc/self/attr/current": "containers-default-0.50.1 (enforce)\n",
        },
    )
    assert read_confinement(usual) == Confinement(
        engine=ContainerEngine.PODMAN, has_filter=True, masks_proc=True, profile="containers-default-0.50.1"
    )
    open_one = make_root(
        tmp_path / "open",
        **{
            "proc/self/status": "Seccomp:\t0\n",
            "proc/self/mountinfo": f"{PLAIN}\n30 22 0:31 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n",
            "proc/self/attr/current": "unconfined\n",
        },
    )
    assert read_confinement(open_one) == Confinement()
    assert read_confinement(tmp_path / "nothing") == Confinement()
