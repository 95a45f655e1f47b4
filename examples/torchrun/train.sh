#!/usr/bin/env bash
# train.sh PROGRAM [OPTION OF cleave-run]...: trains PROGRAM with torchrun on one node or several.
#
# Run it once on every node, with the same NNODES, NPROC_PER_NODE, HEAD and JOB:
#   NNODES          nodes (default: 1)
#   NPROC_PER_NODE  ranks on each: one for each GPU (default: as many as there are GPUs, else 1)
#   HEAD            host of one of the nodes, and a free port there: node1:29400. Any agent that
#                   runs on this host makes the rendezvous. Needed for several nodes
#   JOB             a name that this job's agents share and no other job has (default: cleave)
#   IFNAME          network interface between the nodes, for Gloo and NCCL (default: their choice)
set -euo pipefail

program=${1:?usage: train.sh PROGRAM [OPTION OF cleave-run]...}
shift
nodes=${NNODES:-1}
per_node=${NPROC_PER_NODE:-}
if [ -z "$per_node" ]; then
  per_node=$( (nvidia-smi --list-gpus 2>/dev/null || true) | grep -c '^GPU' || true)
  [ "$per_node" -gt 0 ] || per_node=1
fi
[ -r "$program" ] || {
  echo "train.sh: expected the program on this node ($(hostname)), found no readable $program" >&2
  exit 1
}
if [ "$nodes" -gt 1 ] && [ -z "${HEAD:-}" ]; then
  echo "train.sh: NNODES=$nodes, but HEAD is not set: expected HOST:PORT of one of the nodes" >&2
  exit 1
fi
if [ -n "${IFNAME:-}" ]; then
  export GLOO_SOCKET_IFNAME=$IFNAME NCCL_SOCKET_IFNAME=$IFNAME
fi

# Without OMP_NUM_THREADS torchrun sets it to 1 where a node has several ranks; cleave-run divides the
# cores among a node's ranks by itself, and --threads says otherwise.
agent=(--nnodes "$nodes" --nproc-per-node "$per_node" --rdzv-id "${JOB:-cleave}"
  --rdzv-backend c10d --rdzv-endpoint "${HEAD:-localhost:0}")
# Several agents on one machine, and machines whose own name does not resolve.
[ -z "${LOCAL_ADDR:-}" ] || agent+=(--local-addr "$LOCAL_ADDR")
exec "${PYTHON:-python3}" -m torch.distributed.run "${agent[@]}" \
  --no-python "${CLEAVE_RUN:-cleave-run}" "$program" "$@"
