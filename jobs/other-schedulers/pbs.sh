#!/usr/bin/env bash
# A run under PBS Pro or OpenPBS that goes on beyond its time limit. NOT YET TRIED on a real PBS.
#
#   qsub -v JOB=jobs/fashion-mnist.cfg jobs/other-schedulers/pbs.sh
#   qsub -v JOB=first.cfg,OPTIONS="--client.lr=0.1 --run.seed=2" -l walltime=4:00:00 jobs/...
#
# From the repository, or from any folder with -v JOB=...,SCRIPT=FILE,PATH, where FILE is this one of an
# installation and PATH has its bin; the results are in runs/NAME-JOBID there. PBS sends no early
# signal, so the run itself stops SPARE seconds before the limit: it writes a checkpoint and ends with
# status 75. Then a second job takes its place, which resumes.
#PBS -N hanse
#PBS -l select=1:ncpus=8:mpiprocs=8
#PBS -l walltime=1:00:00
#PBS -j oe
set -u
cd "$PBS_O_WORKDIR" || exit 2

program=${HANSE:-build/hanse}
[[ -n ${HANSE-} || -x $program ]] || program=$(command -v hanse) ||
  { echo "no build/hanse here, and no hanse in PATH" >&2; exit 2; }

spare=${SPARE:-120}
seconds=$(qstat -f "$PBS_JOBID" |
  awk -F'[=:]' '/Resource_List.walltime/ {print $2 * 3600 + $3 * 60 + $4}')
run=${RUN:-runs/$(basename "${JOB:?qsub -v JOB=JOB.cfg}" .cfg)-${PBS_JOBID%%.*}}
if compgen -G "$run/checkpoints/round-*.h5" >/dev/null; then
  task=(resume "$run")
else  # what a start without a checkpoint left is this job's own
  # shellcheck disable=SC2206  # options are separated by blanks
  task=(run "$JOB" --run.out="$run" --run.overwrite=true ${OPTIONS-})
fi

mpirun --hostfile "$PBS_NODEFILE" "$program" "${task[@]}" --run.max-seconds=$((seconds - spare))
status=$?
if [[ $status -eq 75 ]]; then
  script=${SCRIPT:-jobs/other-schedulers/pbs.sh}
  qsub -v JOB="$JOB",RUN="$run",SCRIPT="$script",PATH -l walltime="$seconds" "$script"
fi
exit "$status"
