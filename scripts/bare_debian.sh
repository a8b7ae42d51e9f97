#!/bin/sh
# Tries a checkout on a bare Debian: python3, make and git, nothing else. `make bare` runs it; it needs root.
#
#   scripts/bare_debian.sh [root] [user]     as root, as an ordinary user (default: both)
#
#   SUITE=bookworm     the Debian release
#   BARE_DIR=DIR       keep the system and the logs there (default: a temporary folder, removed at the end)
#   NO_TESTS=1         only `make run` and a turn, without `make check` and `make test`
#
# Per user: a fresh system and a clean clone; `make run` must end with walls and say so; a turn runs in bubblewrap;
# `make check` and `make test` pass. Packages come from wherever this machine is set up to take them: its apt and pip
# configuration, the folders that these name, and its certificates are seen inside.
#
# A plain chroot will not do: the kernel refuses user namespaces to a chrooted process, and so bubblewrap to an ordinary
# user. systemd-nspawn and podman mask parts of /proc, which keeps bubblewrap from mounting its own. So this makes a
# mount and a pid namespace, mounts a whole /proc and changes the root with pivot_root.
set -eu

SUITE=${SUITE:-bookworm}
PACKAGES=python3,make,git,ca-certificates
CHECKOUT=$(cd "$(dirname "$0")/.." && pwd)
SOMEBODY=somebody
READY_S=600

say() { echo "bare: $*"; }
die() { echo "bare: $*" >&2; exit 1; }

make_system() {  # FOLDER
    if [ -f "$DIR/base.tar" ]; then
        :
    elif command -v mmdebstrap >/dev/null; then
        mmdebstrap --quiet --variant=minbase --include=$PACKAGES "$SUITE" "$DIR/base.tar"
    elif command -v debootstrap >/dev/null; then
        debootstrap --variant=minbase --include=$PACKAGES "$SUITE" "$DIR/base" >"$DIR/debootstrap.log"
        tar -C "$DIR/base" -cf "$DIR/base.tar" . && rm -rf "$DIR/base"
    else
        die "neither mmdebstrap nor debootstrap is here; apt-get install mmdebstrap"
    fi
    mkdir "$1"
    tar -C "$1" --exclude='./dev/*' -xpf "$DIR/base.tar"
    chroot "$1" useradd --create-home --shell /bin/bash $SOMEBODY
}

# This machine's own way to packages. Nothing of it is written down here.
pip_files() {
    for each in "${PIP_CONFIG_FILE:-}" "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" "$HOME/.pip/pip.conf" /etc/pip.conf; do
        if [ -f "$each" ]; then echo "$each"; fi
    done
}

pip_folders() {  # that the configuration names; an index of files keeps them beside its pages
    { pip_files | xargs -r cat; env | grep '^PIP_' || true; } | tr ' =' '\n\n' \
        | sed -n 's|^file://\(/.*\)/[^/]*/*$|\1|p; s|^/|/|p' \
        | while read -r each; do if [ -d "$each" ]; then echo "$each"; fi; done | sort -u
}

give_registries() {  # FOLDER
    for each in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/resolv.conf /etc/hosts; do
        if [ -e "$each" ]; then rm -rf "${1:?}$each"; cp -RL "$each" "$1$each"; fi
    done
    cat /etc/ssl/certs/ca-certificates.crt >"$1/etc/ssl/certs/ca-certificates.crt"
    : >"$1/etc/pip.conf"
    pip_files | while read -r each; do cat "$each"; echo; done | awk '
        /^\[/ { section = $0; next }
        section == "[global]" && /=/ { key = $1; if (!(key in seen)) { seen[key] = 1; lines[++count] = $0 } }
        END { print "[global]"; for (i = 1; i <= count; i++) print lines[i] }' >"$1/etc/pip.conf"
    for each in $(pip_folders); do mkdir -p "$1$each"; done
}

# Run a script inside as a user: enter FOLDER USER SCRIPT
enter() {
    cp "$3" "$1/inside.sh"
    folders=$(pip_folders | tr '\n' ' ')
    variables=$(env | grep -E '^(PIP_|https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY)' | grep -v '^PIP_CONFIG_FILE=' || true)
    printf '%s\n' "$variables" | sed -n "s/^\([A-Za-z_]*\)=\(.*\)$/export \1='\2'/p" >"$1/etc/bare-environment"
    unshare --mount --pid --fork --kill-child --ipc --uts --propagation private sh -euc '
        root=$1 user=$2 folders=$3
        mount --bind "$root" "$root"
        for each in $folders; do mount --rbind -o ro "$each" "$root$each"; done
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount --rbind /sys "$root/sys"
        mount -t tmpfs -o mode=755 tmpfs "$root/run"
        hostname bare
        cd "$root"
        mkdir -p .old
        pivot_root . .old
        exec chroot . /usr/bin/env -i /bin/sh -euc "
            export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
            umount -l /.old
            . /etc/bare-environment
            if [ $user = root ]; then export HOME=/root USER=root; cd /root; exec sh -eu /inside.sh; fi
            export HOME=/home/$user USER=$user; cd /home/$user
            exec setpriv --reuid $user --regid $user --init-groups sh -eu /inside.sh"
    ' sh "$1" "$2" "$folders"
}

make_script() {  # what is done inside, in the home of whoever does it
    cat <<SCRIPT
home=\$HOME/data
echo "bare: \$(id -un) on Debian \$(cat /etc/debian_version), \$(python3 --version), no bwrap: \$(command -v bwrap || echo right)"
cd "\$HOME/gatepost"
make run HOME_DIR="\$home" ARGS="--listen 127.0.0.1:0" >"\$HOME/run.log" 2>"\$HOME/run.err" &
up=\$!
tries=0
until grep -q '^gatepost is ready' "\$HOME/run.log" && grep -qi 'walls\|bubblewrap' "\$HOME/run.log"; do
    tries=\$((tries + 1))
    if ! kill -0 \$up 2>/dev/null || [ \$tries -gt $READY_S ]; then
        cat "\$HOME/run.log" "\$HOME/run.err"; echo "bare: make run did not get ready"; exit 1
    fi
    sleep 1
done
sed 's/^/bare: make run: /' "\$HOME/run.log"
grep -q '^agents run in bubblewrap' "\$HOME/run.log" || { echo "bare: make run has no walls"; exit 1; }
gatepost() { .venv/bin/gatepost --home "\$home" "\$@"; }
gatepost group set home sandbox=bubblewrap
said=\$(gatepost chat -m hello --wait)
echo "bare: an agent in bubblewrap said: \$said"
[ -n "\$said" ]
[ "\$(gatepost sandbox run home -- uname -n)" = gatepost ]
echo "bare: sandbox run is within walls"
gatepost status
gatepost down
wait \$up || true
if [ -z "${NO_TESTS:-}" ]; then make check; make test; fi
SCRIPT
}

try_as() {  # USER
    system=$DIR/$1
    say "making a bare Debian ($SUITE) for $1"
    make_system "$system"
    give_registries "$system"
    place=$(if [ "$1" = root ]; then echo /root; else echo "/home/$1"; fi)
    git clone --quiet --no-hardlinks "$CHECKOUT" "$system$place/gatepost"
    chroot "$system" chown -R "$1:" "$place/gatepost"
    make_script >"$DIR/inside.sh"
    began=$(date +%s)
    if enter "$system" "$1" "$DIR/inside.sh"; then
        say "as $1: well, in $(($(date +%s) - began)) s"
    else
        say "as $1: FAILED after $(($(date +%s) - began)) s"
        failed=1
    fi
    if [ "$KEEP" = no ]; then rm -rf --one-file-system "$system"; fi
}

[ "$(id -u)" = 0 ] || die "this makes a system of its own, which needs root"
if [ -n "${BARE_DIR:-}" ]; then
    KEEP=yes DIR=$(mkdir -p "$BARE_DIR" && cd "$BARE_DIR" && pwd)
else
    KEEP=no DIR=$(mktemp -d)
    trap 'rm -rf --one-file-system "$DIR"' EXIT
fi
chmod 755 "$DIR"
failed=0
[ $# -gt 0 ] || set -- root user
for each in "$@"; do
    case $each in
        root) try_as root ;;
        user) try_as $SOMEBODY ;;
        *) die "as whom? root or user, not $each" ;;
    esac
done
exit $failed
