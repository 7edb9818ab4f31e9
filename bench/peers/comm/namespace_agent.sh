#!/usr/bin/env bash
# In place of ssh for mpirun: runs a command on a host of namespaces.py. 10.77.0.<i + 1> is host i.
#   namespace_agent.sh [options of ssh] <address> <command>
set -eu
while [[ $1 == -* ]]; do shift; done
host=${1##*.}
shift
export TMPDIR=$TMPDIR/$host # a machine of its own to Open MPI
mkdir -p "$TMPDIR"
exec ip netns exec "$LEAT_WIRE_HOST$((host - 1))" bash -c "$*"
