#!/usr/bin/env bash
# SLURM with two virtual nodes on this machine, for as long as one command runs; nothing is left of it afterwards.
#
#     cluster/slurm_here.sh sinfo
#     cluster/slurm_here.sh dshap run job.toml --cluster cluster/slurm_here.toml
#     cluster/slurm_here.sh sbatch --wait --array=0-3 shards.sh
#
# It needs root and Debian's packages: apt-get install --no-install-recommends slurm-wlm munge.  The daemons have a mount and
# a process namespace of their own: their files stand in memory, and they end with the command, however that ends.  There is
# no accounting (no sacct).  The exit status is the command's.
set -euo pipefail

for program in slurmctld slurmd munged unshare; do
    if ! command -v "$program" >/dev/null; then
        echo "slurm_here.sh: there is no program $program: apt-get install --no-install-recommends slurm-wlm munge" >&2
        exit 2
    fi
done
if [ "$(id -u)" != 0 ]; then
    echo "slurm_here.sh: it starts the daemons of SLURM, as root: sudo $0 ..." >&2
    exit 2
fi
if [ $# = 0 ]; then
    echo "slurm_here.sh: give the command that is run: $0 sinfo" >&2
    exit 2
fi

if [ "${SLURM_HERE:-}" = "" ]; then
    folder=$(mktemp -d)
    trap 'rmdir "$folder"' EXIT
    status=0
    SLURM_HERE=$folder unshare --mount --pid --fork --kill-child --mount-proc "$0" "$@" || status=$?
    exit "$status"
fi

# from here on inside of the namespaces
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$SLURM_HERE"
host=$(hostname -s)
port=$((20000 + RANDOM % 10000))
mkdir "$SLURM_HERE"/{state,n1,n2}
dd if=/dev/urandom of="$SLURM_HERE/munge.key" bs=128 count=1 status=none
chmod 400 "$SLURM_HERE/munge.key"
cat >"$SLURM_HERE/slurm.conf" <<END
ClusterName=here
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$SLURM_HERE/munge.socket
StateSaveLocation=$SLURM_HERE/state
SlurmctldPidFile=$SLURM_HERE/slurmctld.pid
SlurmctldLogFile=$SLURM_HERE/slurmctld.log
SlurmdPidFile=$SLURM_HERE/%n.pid
SlurmdLogFile=$SLURM_HERE/%n.log
SlurmdSpoolDir=$SLURM_HERE/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=2 RealMemory=4000
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=2 RealMemory=4000
PartitionName=here Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=$SLURM_HERE/slurm.conf
munged --force --key-file="$SLURM_HERE/munge.key" --socket="$SLURM_HERE/munge.socket" \
    --pid-file="$SLURM_HERE/munged.pid" --log-file="$SLURM_HERE/munged.log" --seed-file="$SLURM_HERE/munged.seed"
slurmctld -c -f "$SLURM_CONF"
slurmd -N n1 -f "$SLURM_CONF"
slurmd -N n2 -f "$SLURM_CONF"
for _ in $(seq 100); do
    if [ "$(sinfo --noheader --format=%T --Node 2>/dev/null | sort -u)" = idle ]; then
        ready=yes
        break
    fi
    sleep 0.1
done
if [ "${ready:-}" = "" ]; then
    echo "slurm_here.sh: the two nodes are not idle after 10 s:" >&2
    tail -n 5 "$SLURM_HERE"/*.log >&2
    exit 1
fi
export SLURM_HERE_FOLDER=$SLURM_HERE  # in memory, and seen by the command and both nodes
unset SLURM_HERE
status=0
"$@" || status=$?
SLURM_HERE=$SLURM_HERE_FOLDER
scancel --user=root 2>/dev/null || true
exit "$status"
