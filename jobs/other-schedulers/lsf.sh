#!/usr/bin/env bash
# A run under LSF that goes on beyond its time limit: two minutes before it LSF sends USR1, the run
# writes a checkpoint and ends with status 75, and LSF queues the job again, which resumes. NOT YET
# TRIED on a real LSF.
#
#   bsub jobs/other-schedulers/lsf.sh jobs/fashion-mnist.cfg [--section.key=value ...]
#
# From the repository, or with an installation's bin in PATH from any folder; the results are in
# runs/NAME-JOBID there.
#BSUB -J hanse
#BSUB -n 8
#BSUB -W 1:00
#BSUB -wa USR1
#BSUB -wt 2
#BSUB -r
#BSUB -Q "75"
#BSUB -o hanse-%J.out
set -u

program=${HANSE:-build/hanse}
[[ -n ${HANSE-} || -x $program ]] || program=$(command -v hanse) ||
  { echo "no build/hanse here, and no hanse in PATH" >&2; exit 2; }

job=${1:?bsub jobs/other-schedulers/lsf.sh JOB.cfg [--section.key=value ...]}
run=runs/$(basename "$job" .cfg)-$LSB_JOBID
if compgen -G "$run/checkpoints/round-*.h5" >/dev/null; then
  task=(resume "$run")
else  # what a start without a checkpoint left is this job's own
  task=(run "$job" --run.out="$run" --run.overwrite=true "${@:2}")
fi

# mpirun passes USR1 on to the ranks; a TERM of its own would end them without a checkpoint.
interrupted=no
trap 'interrupted=yes; kill -USR1 "$ranks"' USR1 TERM INT
mpirun -n "${LSB_DJOB_NUMPROC:-8}" "$program" "${task[@]}" &
ranks=$!
while :; do  # a signal interrupts the wait
  interrupted=no
  wait "$ranks"
  status=$?
  [[ $interrupted == yes ]] || break
done
exit "$status"  # 75: LSF queues the job again
