#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Measures, and prints a table of each:
#   api, pods, storage  the API against a custom resource, offloaded pods and volumes of the virtual
#                       storage class against plain ones, on two clusters of its own
#   tunnel              the network between clusters, in network namespaces
#
#   hack/bench.sh [--only api|pods|storage|tunnel] [--runs N] [flags of the benchmark]
#
# Other flags are passed to bin/bench, or with --only tunnel to bin/bench-tunnel; --help prints those of
# both.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

only=
runs=3
args=() help=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    -h | --help) help=(--help) ;;
    --only) only=${2:?"--only: name one of api, pods, storage, tunnel"}; shift ;;
    --only=*) only=${1#*=} ;;
    --runs) runs=${2:?"--runs: give a number"}; shift ;;
    --runs=*) runs=${1#*=} ;;
    *) args+=("$1") ;;
  esac
  shift
done
case "${only}" in
  '' | api | pods | storage | tunnel) ;;
  *)
    echo "bench.sh: --only ${only}: name one of api, pods, storage, tunnel" >&2
    exit 2
    ;;
esac

mkdir -p bin
if [[ ${only} != tunnel ]]; then
  go build -ldflags '-s -w' -o bin/bench ./test/bench
  bin/bench --runs "${runs}" --only "${only}" "${args[@]}" "${help[@]}"
  args=()
fi
if [[ -z ${only} || ${only} == tunnel ]]; then
  go build -ldflags '-s -w' -o bin/bench-tunnel ./test/bench/tunnel
  unshare --net --mount bin/bench-tunnel --runs "${runs}" "${args[@]}" "${help[@]}"
fi
