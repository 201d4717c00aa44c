# shellcheck shell=bash
# What setup, build, quickstart and test share. Sourced, never run.

# The repository.
# shellcheck disable=SC2034
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }

die() {  # die WHAT [HINT]: bad usage or a machine that lacks something
  printf '%s: %s%s\n' "$(basename "$0")" "$1" "${2:+; hint: $2}" >&2
  exit 2
}

# Prints the comment at a script's head: its help.
print_help() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; }

# Processors this process may use. nproc also obeys OMP_NUM_THREADS, which says nothing about them.
processors() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc; }

# Open MPI refuses to start as root unless asked twice; mpirun and ctest's own mpirun both read this.
allow_mpi_as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
}

# Open MPI's folder of a host goes with the last mpirun, also when another is about to use it, which
# then fails: this one stays while it holds a folder, whose name is printed.
hold_session_folder() {  # hold_session_folder BASE
  local held=$1/ompi.$(hostname).$UID/held
  mkdir -p "$held"
  say "$held"
}

# Does the process hear a request to stop? The program blocks SIGUSR1 with its first step, and catches
# it once it can act on it; before, the signal would end it.
hears_stop() {  # hears_stop PROCESS
  local field mask
  while read -r field mask; do
    case $field in
      SigBlk: | SigCgt:) if ((16#$mask >> 9 & 1)); then return 0; fi ;;
    esac
  done < <(grep '^Sig' "/proc/$1/status" 2>/dev/null)
  return 1
}

# Asks ranks to stop after a checkpoint. mpirun passes SIGUSR1 on to them, once it has started them.
ask_ranks_to_stop() {  # ask_ranks_to_stop MPIRUN
  local mpirun=$1 rank deaf
  while kill -0 "$mpirun" 2>/dev/null; do
    deaf=yes
    for rank in $(cat "/proc/$mpirun/task"/*/children 2>/dev/null); do
      deaf=no
      if ! hears_stop "$rank"; then deaf=yes; break; fi
    done
    if [[ $deaf == no ]]; then
      sleep 0.2  # ranks of other hosts have begun with these
      kill -USR1 "$mpirun" 2>/dev/null || true
      return
    fi
    sleep 0.05
  done
}
