#!/usr/bin/env bash
# Installs the missing tools to build, run and test seckill. `--help` lists them.
#
# Written for bash 3.2 as well, which macOS still ships: no associative arrays, and no expansion of an
# array that may be empty.
set -euo pipefail

readonly oldest_server="7.0"
readonly oldest_cargo="1.94"

for_tests=no

usage() {
    cat <<'HELP'
usage: assets/setup.sh [--tests] [--help]

Installs the missing tools to build, run and test seckill:

  redis server   Redis or Valkey 7.0 or later; seckill starts it as its embedded server
  redis-cli      (or valkey-cli) to inspect Redis
  C compiler     compiles SQLite, which is part of seckill
  sqlite3        to inspect the database

With --tests, also the servers that the tests start in temporary directories:

  mariadbd       MariaDB 10.6 or later
  postgres       PostgreSQL 12 or later, with initdb
  libfaketime    sets a different clock for one process

Supports Debian, Ubuntu, Fedora, Arch, and macOS with Homebrew. Asks no questions, starts no service, and
changes nothing if every tool is present. Uses sudo unless run as root. Rust is checked but not
installed.
HELP
}

say() { printf '%s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# True if version $1 (7.0.15) is at least $2 (7.0); only the first two numbers are compared.
at_least() {
    local major=${1%%.*} rest=${1#*.} wanted_major=${2%%.*} wanted_minor=${2#*.}
    local minor=${rest%%.*}
    ((major > wanted_major || (major == wanted_major && minor >= wanted_minor)))
}

# The version that program $1 prints when it is run under the name $2, or nothing. Another program
# named redis-server does not print such a line and is skipped.
server_version() {
    local line
    line=$(exec -a "$2" "$1" --version </dev/null 2>/dev/null | head -n 1) || true
    if [[ $line =~ server\ v=([0-9]+\.[0-9]+\.[0-9]+) ]]; then
        printf '%s' "${BASH_REMATCH[1]}"
    fi
}

# Sets server_path, server_name and server_found to the first server that is new enough, else to the
# first one of any age. Returns 0 only for one that is new enough.
#
# Redis is one binary whose role depends on the name it is run under. Debian's redis-tools ships it as
# redis-check-rdb without the service that redis-server would start.
find_server() {
    server_path="" server_name="" server_found=""
    local pair file name path version
    for pair in valkey-server:valkey-server redis-server:redis-server \
        redis-check-rdb:redis-server valkey-check-rdb:valkey-server; do
        file=${pair%%:*} name=${pair##*:}
        while IFS= read -r path; do
            version=$(server_version "$path" "$name")
            [[ -n $version ]] || continue
            if at_least "$version" "$oldest_server"; then
                server_path=$path server_name=$name server_found=$version
                return 0
            fi
            if [[ -z $server_found ]]; then
                server_path=$path server_name=$name server_found=$version
            fi
        done < <(type -aP "$file" || true)
    done
    return 1
}

# The MariaDB server, which is on the PATH of root only.
find_mariadb() {
    local path
    for path in "$(command -v mariadbd || true)" /usr/sbin/mariadbd /usr/libexec/mariadbd; do
        if [[ -n $path && -x $path ]]; then
            say "$path"
            return
        fi
    done
    return 1
}

find_faketime() {
    local path
    for path in /usr/lib/*/faketime/libfaketimeMT.so.1 /usr/lib64/faketime/libfaketimeMT.so.1 \
        /usr/lib/faketime/libfaketimeMT.so.1; do
        if [[ -e $path ]]; then
            say "$path"
            return
        fi
    done
    # Not needed on macOS, where no library can be preloaded and its tests do not run.
    [[ $(uname -s) == Darwin ]] && say none
}

# The PostgreSQL server; Debian installs several versions side by side, outside PATH.
find_postgres() {
    local path
    for path in "$(command -v postgres || true)" /usr/lib/postgresql/*/bin/postgres \
        /opt/homebrew/opt/postgresql@*/bin/postgres; do
        if [[ -n $path && -x $path && -x ${path%/*}/initdb ]]; then
            say "$path"
            return
        fi
    done
    return 1
}

have_cli() { have redis-cli || have valkey-cli; }

# Compiles and links a program, because a compiler without headers or a linker is not enough.
have_compiler() {
    # On macOS without its command line tools, cc is a stub that opens a window.
    if [[ $(uname -s) == Darwin ]] && ! xcode-select -p >/dev/null 2>&1; then
        return 1
    fi
    have cc && printf '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' |
        cc -x c - -o "$scratch/probe" >/dev/null 2>&1
}

as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    elif have sudo; then
        # Without a terminal, sudo cannot ask for a password; -n makes it fail with a message instead.
        if [[ -t 0 ]]; then sudo "$@"; else sudo -n "$@"; fi
    else
        fail "this command needs root, and sudo is missing; run it as root: $*"
    fi
}

platform() {
    if [[ $(uname -s) == Darwin ]]; then
        if have brew; then say brew; else say macos-without-brew; fi
    elif have apt-get; then say apt
    elif have dnf; then say dnf
    elif have pacman; then say pacman
    else say unknown; fi
}

# Whether apt has a candidate version of $1. Not a pipe into `grep -q`, which exits at the first match:
# apt-cache would sometimes fail with SIGPIPE, which would count as "no".
apt_offers() {
    local policy
    policy=$(LC_ALL=C apt-cache policy "$1" 2>/dev/null) || return 1
    [[ $policy =~ Candidate:\ [0-9] ]]
}

# The *-tools packages contain the server binary but no service, so nothing is started or enabled.
apt_redis() {
    if apt_offers redis-tools; then say redis-tools
    elif apt_offers valkey-tools; then say valkey-tools
    else fail "apt has neither redis-tools nor valkey-tools; on Ubuntu enable 'universe', or install Redis or Valkey $oldest_server or later yourself"; fi
}

install_apt() {
    local redis="" status=0
    say "refreshing the package lists"
    # One unreachable source among several is not fatal; a package that is really missing fails below.
    as_root apt-get update -qq || say "some package lists could not be refreshed; continuing with the existing ones"
    set --
    if [[ $need_redis == yes ]]; then
        # Assigned first: a failure inside an argument would not stop the script.
        redis=$(apt_redis)
        set -- "$@" "$redis"
    fi
    if [[ $need_compiler == yes ]]; then set -- "$@" build-essential; fi
    if [[ $need_sqlite == yes ]]; then set -- "$@" sqlite3; fi
    # The server alone; mariadb-server would add a service and start it.
    if [[ $need_mariadb == yes ]]; then set -- "$@" mariadb-server-core; fi
    if [[ $need_postgres == yes ]]; then set -- "$@" postgresql; fi
    if [[ $need_faketime == yes ]]; then set -- "$@" libfaketime; fi
    say "installing $*"
    if [[ $need_postgres == yes ]]; then no_main_cluster; fi
    as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null || status=$?
    if [[ $need_postgres == yes ]]; then main_cluster_again; fi
    return "$status"
}

# Debian's server package creates a cluster named "main" and starts it now and at each boot. Without a
# cluster, its service has nothing to start. The setting applies only during the installation, not to
# clusters that a user creates later with pg_createcluster.
readonly cluster_rule=/etc/postgresql-common/createcluster.d/seckill-setup.conf
no_main_cluster() {
    # An existing setting is left unchanged.
    if [[ ! -e $cluster_rule ]]; then
        as_root mkdir -p "${cluster_rule%/*}"
        printf 'create_main_cluster = false\n' | as_root tee "$cluster_rule" >/dev/null
    fi
}
main_cluster_again() { as_root rm -f "$cluster_rule"; }

install_dnf() {
    set --
    # Fedora's packages do not enable their services.
    if [[ $need_redis == yes ]]; then
        if dnf -q list valkey >/dev/null 2>&1; then set -- "$@" valkey; else set -- "$@" redis; fi
    fi
    if [[ $need_compiler == yes ]]; then set -- "$@" gcc glibc-devel; fi
    if [[ $need_sqlite == yes ]]; then set -- "$@" sqlite; fi
    if [[ $need_mariadb == yes ]]; then set -- "$@" mariadb-server; fi
    if [[ $need_postgres == yes ]]; then set -- "$@" postgresql-server; fi
    if [[ $need_faketime == yes ]]; then set -- "$@" libfaketime; fi
    say "installing $*"
    as_root dnf install -y -q "$@"
}

install_pacman() {
    set --
    # Arch never starts a service automatically.
    if [[ $need_redis == yes ]]; then set -- "$@" valkey; fi
    if [[ $need_compiler == yes ]]; then set -- "$@" gcc; fi
    if [[ $need_sqlite == yes ]]; then set -- "$@" sqlite; fi
    if [[ $need_mariadb == yes ]]; then set -- "$@" mariadb; fi
    if [[ $need_postgres == yes ]]; then set -- "$@" postgresql; fi
    if [[ $need_faketime == yes ]]; then set -- "$@" libfaketime; fi
    say "installing $*"
    # A refresh without an upgrade can break Arch, so refresh only if there is no package list at all.
    if compgen -G '/var/lib/pacman/sync/*.db' >/dev/null; then
        as_root pacman -S --needed --noconfirm "$@"
    else
        as_root pacman -Sy --needed --noconfirm "$@"
    fi
}

install_brew() {
    set --
    # `brew install` starts nothing; that would be `brew services`.
    if [[ $need_redis == yes ]]; then
        # The two packages conflict, so an older redis is upgraded instead.
        if brew list redis >/dev/null 2>&1; then brew upgrade redis; else set -- "$@" valkey; fi
    fi
    if [[ $need_sqlite == yes ]]; then set -- "$@" sqlite; fi
    if [[ $need_mariadb == yes ]]; then set -- "$@" mariadb; fi
    if [[ $need_postgres == yes ]]; then set -- "$@" postgresql@17; fi
    if [[ $# -gt 0 ]]; then
        say "installing $*"
        brew install --quiet "$@"
    fi
    if [[ $need_compiler == yes ]]; then
        fail "the C compiler is missing; run 'xcode-select --install', then this again"
    fi
}

look() {
    need_redis=no need_compiler=no need_sqlite=no
    if find_server && have_cli; then :; else need_redis=yes; fi
    have_compiler || need_compiler=yes
    have sqlite3 || need_sqlite=yes
    need_mariadb=no need_postgres=no need_faketime=no
    if [[ $for_tests == yes ]]; then
        find_mariadb >/dev/null || need_mariadb=yes
        find_postgres >/dev/null || need_postgres=yes
        find_faketime >/dev/null || need_faketime=yes
    fi
}

# The path of the user's cargo, even if sudo has reset PATH.
find_cargo() {
    local home dir
    if have cargo; then
        command -v cargo
        return
    fi
    home=${HOME:-}
    if [[ -n ${SUDO_USER:-} ]]; then home=$(eval "printf '%s' ~$(printf '%q' "$SUDO_USER")"); fi
    for dir in "${CARGO_HOME:-$home/.cargo}/bin" "$home/.cargo/bin"; do
        if [[ -x $dir/cargo ]]; then
            say "$dir/cargo"
            return
        fi
    done
}

check_cargo() {
    local cargo line
    cargo=$(find_cargo)
    if [[ -z $cargo ]]; then
        fail "cargo is missing; install Rust $oldest_cargo or later with rustup (https://rustup.rs)"
    fi
    line=$("$cargo" --version 2>/dev/null) || line=""
    if ! [[ $line =~ ^cargo\ ([0-9]+\.[0-9]+\.[0-9]+) ]]; then
        fail "$cargo does not report its version; install Rust $oldest_cargo or later with rustup (https://rustup.rs)"
    fi
    if ! at_least "${BASH_REMATCH[1]}" "$oldest_cargo"; then
        fail "cargo is ${BASH_REMATCH[1]}, but $oldest_cargo or later is required; run 'rustup update stable' (https://rustup.rs)"
    fi
    say "cargo: found ${BASH_REMATCH[1]} at $cargo"
}

# Reports what is installed, and fails at the first tool that is missing.
report() {
    if ! find_server; then
        if [[ -n $server_found ]]; then
            fail "the redis server is version $server_found ($server_path), but $oldest_server or later is required; install a newer one from https://valkey.io/download or https://redis.io/downloads, or pass the URL of one to seckill with --redis"
        fi
        fail "no redis server was found; install Redis or Valkey $oldest_server or later from https://valkey.io/download or https://redis.io/downloads"
    fi
    if [[ ${server_path##*/} == "$server_name" ]]; then
        say "redis server: found $server_found at $server_path"
    else
        say "redis server: found $server_found at $server_path (run under the name $server_name)"
    fi
    have_cli || fail "redis-cli is missing; install the package that contains it (redis-tools, valkey or redis)"
    say "redis-cli: found at $(command -v redis-cli || command -v valkey-cli)"
    have_compiler || fail "no C compiler that can compile and link was found as 'cc'; install gcc or clang with the C library's headers"
    say "C compiler: found at $(command -v cc)"
    have sqlite3 || fail "sqlite3 is missing; install SQLite's command line program"
    say "sqlite3: found at $(command -v sqlite3)"
    if [[ $for_tests == yes ]]; then
        find_mariadb >/dev/null || fail "the MariaDB server (mariadbd) is missing; install the package that contains it (mariadb-server-core, mariadb-server or mariadb)"
        say "mariadbd: found at $(find_mariadb)"
        find_postgres >/dev/null || fail "the PostgreSQL server (postgres, initdb) is missing; install the package that contains it (postgresql or postgresql-server)"
        say "postgres: found at $(find_postgres)"
        find_faketime >/dev/null || fail "libfaketime is missing; install the package that contains it (libfaketime)"
        say "libfaketime: found at $(find_faketime)"
    fi
    check_cargo
}

case ${1:-} in
    "") ;;
    --tests) for_tests=yes ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

look
if [[ $need_redis$need_compiler$need_sqlite$need_mariadb$need_postgres$need_faketime == *yes* ]]; then
    case $(platform) in
        apt) install_apt ;;
        dnf) install_dnf ;;
        pacman) install_pacman ;;
        brew) install_brew ;;
        macos-without-brew)
            fail "Homebrew is missing (https://brew.sh); install it, or install these yourself: valkey $oldest_server or later, sqlite3, and the C compiler (xcode-select --install)"
            ;;
        *)
            fail "this system is not supported by the script; install these yourself: a Redis or Valkey server $oldest_server or later with its command-line client, a C compiler, and sqlite3; for the tests, also the MariaDB and PostgreSQL servers"
            ;;
    esac
    # Bash caches the paths of programs.
    hash -r
fi
report
