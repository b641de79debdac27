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

install_packages() {
    command -v apt-get >/dev/null 2>&1 || die "these packages are missing, and apt-get is not here to install them: $*"
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || die "these packages are missing; as root: apt-get install $*"
        as_root=(sudo)
    fi
    say "installing: $*"
    "${as_root[@]}" apt-get update -qq >&2 || say "apt-get update failed; trying with the lists that are here"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2 \
        || die "apt-get could not install: $*"
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
