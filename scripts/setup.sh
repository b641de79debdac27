# What ./run and ./test have in common: see what is missing, install that, and nothing where nothing is.
#
# Sourced by both, in the checkout's folder. Debian 12 and later, Ubuntu 24.04 and later.

say() { printf '%s\n' "$*" >&2; }

die() { say "error: $*"; exit 3; }

# words ENGLISH CHINESE: those in the user's language, chosen as kube-netlab does.
words() {
    case "${KUBE_NETLAB_LANG:-${LANGUAGE:-${LC_ALL:-${LC_MESSAGES:-${LANG:-}}}}}" in
        [zZ][hH]*) printf '%s\n' "$2" ;;
        *) printf '%s\n' "$1" ;;
    esac
}

# need_packages PROGRAM=PACKAGE…: apt packages for programs that cannot be found.
need_packages() {
    local missing=() pair
    for pair in "$@"; do
        PATH="$PATH:/usr/sbin:/sbin" command -v "${pair%%=*}" >/dev/null 2>&1 || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -eq 0 ] && return
    install_packages "${missing[@]}"
}

# need_libraries LIBRARY=PACKAGE…: apt packages for shared libraries that the loader does not know.
need_libraries() {
    local missing=() known pair
    known=$(PATH="$PATH:/usr/sbin:/sbin" ldconfig -p 2>/dev/null || true)
    for pair in "$@"; do
        case "$known" in
            *"${pair%%=*} "*) ;;
            *) missing+=("${pair#*=}") ;;
        esac
    done
    [ ${#missing[@]} -eq 0 ] && return
    install_packages "${missing[@]}"
}

# What Qt needs of the system: to draw at all, and (need_qt display) to draw on an X or Wayland display.
need_qt() {
    local libraries=(
        libGL.so.1=libgl1 libEGL.so.1=libegl1 libglib-2.0.so.0=libglib2.0-0 libxkbcommon.so.0=libxkbcommon0
        libfontconfig.so.1=libfontconfig1 libdbus-1.so.3=libdbus-1-3 libgssapi_krb5.so.2=libgssapi-krb5-2
    )
    if [ "${1:-}" = display ]; then
        libraries+=(
            libxcb-cursor.so.0=libxcb-cursor0 libxkbcommon-x11.so.0=libxkbcommon-x11-0
            libxcb-icccm.so.4=libxcb-icccm4 libxcb-keysyms.so.1=libxcb-keysyms1 libxcb-shape.so.0=libxcb-shape0
        )
    fi
    need_libraries "${libraries[@]}"
}

# need_fonts: fonts for Latin (those of the pictures that tests compare with) and with Chinese glyphs.
need_fonts() {
    PATH="$PATH:/usr/sbin:/sbin" command -v fc-list >/dev/null 2>&1 || install_packages fontconfig
    [ -n "$(fc-list ":family=DejaVu Sans Mono" family 2>/dev/null)" ] || install_packages fonts-dejavu-core
    [ -n "$(fc-list :lang=zh-cn family 2>/dev/null)" ] || install_packages fonts-wqy-microhei
}

install_packages() {
    command -v apt-get >/dev/null 2>&1 || die "these packages are missing, and apt-get is not here to install them: $*"
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null 2>&1 || die "these packages are missing; as root: apt-get install $*"
    say "installing: $*"
    update_lists
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2 \
        || die "apt-get could not install: $*"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

update_lists() {
    as_root apt-get update -qq >&2 || say "apt-get update failed; trying with the lists that are here"
}

# need_microvm: what it takes to run labs in a microVM. Its kernel is a package that is downloaded when it is first
# needed, and not installed: apt only has to know it.
need_microvm() {
    need_packages qemu-system-x86_64=qemu-system-x86 mksquashfs=squashfs-tools busybox=busybox
    apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1 && return
    update_lists
}

# need_venv LOCK_FILE STAMP: .venv/ with the lock file's packages and this checkout. STAMP names the set of packages.
need_venv() {
    local lock=$1 stamp=.venv/.$2 wanted
    wanted="$(cat "$lock" pyproject.toml | sha256sum | cut -d' ' -f1) $PWD"
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && return
    local python=/usr/bin/python3
    [ -x "$python" ] || install_packages python3
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
        || die "Python 3.11 or later is needed; this distribution has $("$python" --version 2>&1)"
    "$python" -c 'import ensurepip, venv' 2>/dev/null || install_packages python3-venv
    if [ ! -x .venv/bin/python ] || [ "$(cat .venv/.folder 2>/dev/null)" != "$PWD" ]; then
        # A virtual environment cannot be moved: one that came with a copied checkout is made anew.
        say "making a virtual environment in .venv"
        rm -rf .venv
        "$python" -m venv .venv || die "cannot make .venv in $PWD"
        echo "$PWD" > .venv/.folder
    fi
    say "installing the Python packages of $lock"
    # Quiet twice: of what pip has to say, errors alone. Its warnings are about this machine's configuration of pip.
    .venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check --require-hashes -r "$lock" >&2 \
        || die "pip could not install the packages of $lock"
    .venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . >&2 \
        || die "pip could not install this checkout"
    echo "$wanted" > "$stamp"
}
