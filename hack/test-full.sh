#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs one part of the long tests, each of at most an hour on 2 cores:
#   e2e          all steps of the end-to-end tests, also the long ones, which make test omits
#   properties   unit tests with 5000 examples for each property, verbs and moves that are interrupted at every step,
#                fuzzing, a hostile provider
#   layouts      groups that use a peering, on other layouts of clusters
#   three        a hub and two leaves
#   chaos        15 minutes of killed processes and network partitions
#   storage      databases over two clusters, and the pages that install and uninstall
#   moves        moves of volumes, also interrupted ones
#   demo         the demo on two clusters, and again with a third one; it deletes the clusters
#   bench        the benchmark
# A part is a list of commands. If one fails, the remaining ones still run, and the part fails. RESUME=1 skips the
# commands that succeeded in the last run of the part, and reuses its clusters.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

part=${1:-}
succeeded=_output/test-full.${part}
status=0

# run COMMAND... runs a command, unless it succeeded in the last run.
run() {
  if grep --quiet --line-regexp --fixed-strings -- "$*" "${succeeded}"; then
    echo "succeeded before: $*"
  elif "$@"; then
    echo "$*" >>"${succeeded}"
  else
    echo "failed: $*" >&2
    status=1
  fi
}

# groups LAYOUT GROUPS ARGS... runs groups of the end-to-end tests one after the other on the same clusters, and
# then deletes the clusters.
groups() {
  local layout=$1 groups=$2 group
  shift 2
  export E2E_INSTANCE=full-${layout} E2E_KEEP=1
  for group in ${groups}; do
    run hack/test-e2e.sh "-layout=${layout}" "-groups=${group}" "$@"
  done
  .playground/bin/playground --instance "${E2E_INSTANCE}" down
}

# demo CLUSTERS=N runs the demo, and fails unless it prints the results of its applications and of the move.
demo() {
  local log=_output/demo.log result
  make demo "$1" | tee "${log}" || return 1
  for result in 'a pod of rome reaches Service web on ' 'a node of rome reaches Service web on ' \
    '"paid":"13.20 EUR"' '1000 | 100000' 'database-0 runs on liqo-milan' ' files, downtime '; do
    grep --quiet --fixed-strings -- "${result}" "${log}" || { echo "the demo does not print: ${result}" >&2; return 1; }
  done
}

mkdir -p _output
[[ ${RESUME:-} == 1 ]] || rm -f "${succeeded}"
touch "${succeeded}"

case ${part} in
  e2e)
    run hack/test-e2e.sh
    ;;
  properties)
    run env RAPID_CHECKS=5000 hack/test-unit.sh -count=1 -timeout=60m
    run env SAGA=all hack/gotest.sh saga standard-quiet -count=1 -timeout=30m ./test/saga ./controllers/storage/move
    run hack/fuzz.sh 30s
    run env HOSTILE=5m hack/gotest.sh hostile standard-verbose -count=1 -timeout=30m -run TestAHostileProvider ./test/integration
    ;;
  layouts)
    for layout in single wide; do groups "${layout}" 'peering offloading services network'; done
    ;;
  three)
    run hack/test-e2e.sh -layout=three -databases
    ;;
  chaos)
    groups disjoint 'offloading network resilience chaos' -chaos=15m
    ;;
  storage)
    groups spread 'storage databases pages' -databases
    ;;
  moves)
    groups spread moves -databases
    ;;
  demo)
    run make playground-up
    run demo CLUSTERS=2
    run demo CLUSTERS=3
    make playground-down
    ;;
  bench)
    run make bench
    ;;
  *)
    rm -f "${succeeded}"
    echo "usage: ${0##*/} e2e|properties|layouts|three|chaos|storage|moves|demo|bench" >&2
    exit 2
    ;;
esac
exit "${status}"
