#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs benchmarks, and prints a table for each:
#   api      the federation API in comparison with a custom resource
#   pods     offloaded pods in comparison with plain pods
#   storage  volumes of the virtual StorageClass in comparison with plain volumes
#   tunnel   the network between clusters, in network namespaces
# The first three run on two clusters that are created for them.
#
#   hack/bench.sh [--only api|pods|storage|tunnel] [--runs N] [flags of the benchmark]
#
# Other flags are passed to bin/bench, or with --only tunnel to bin/bench-tunnel. --help prints the flags of both.
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
