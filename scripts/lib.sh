# shellcheck shell=bash
# What setup, build, quickstart and test share. Sourced, never run.

# The repository.
# shellcheck disable=SC2034
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The folder of the Release build.
# shellcheck disable=SC2034
build=build

say() { printf '%s\n' "$*"; }

die() {  # die WHAT [HINT]: bad usage or a machine that lacks something
  printf '%s: %s%s\n' "$(basename "$0")" "$1" "${2:+; hint: $2}" >&2
  exit 2
}

cannot() {  # cannot WHY: the status is what test drivers take for "not here"
  say "${0##*/}: skipped: $1"
  exit 77
}

# Prints the comment at a script's head: its help.
print_help() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; }

# Processors this process may use. nproc also obeys OMP_NUM_THREADS, which says nothing about them.
processors() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc; }

# Open MPI's folder of a host goes with the last mpirun, also when another is about to use it, which
# then fails: this one stays while it holds a folder, whose name is printed.
hold_session_folder() {  # hold_session_folder BASE
  local held=$1/ompi.$(hostname).$UID/held
  mkdir -p "$held"
  say "$held"
}

# Runs a command in a process group of its own, and ends the whole group when this script is told
# to end: bash would die, and leave behind what it has started. The command asks nothing at the
# terminal.
attended() {
  local child signal status=0
  set -m
  "$@" </dev/null &
  child=$!
  set +m
  # shellcheck disable=SC2064
  for signal in INT TERM HUP; do trap "end_attended $child $signal" "$signal"; done
  wait "$child" || status=$?
  trap - INT TERM HUP
  return "$status"
}

end_attended() {  # end_attended CHILD SIGNAL: dies of the signal, after the child's group
  trap '' INT TERM HUP
  kill -TERM -- "-$1" 2>/dev/null || true
  wait "$1" || true
  trap - "$2"
  kill -s "$2" $$
}
