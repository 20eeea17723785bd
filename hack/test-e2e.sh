#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs the end-to-end tests on clusters of their own: two, or with -layout=three a hub and two
# leaves. Arguments go to go test; -groups=network,storage runs these groups in this order.
# E2E_KEEP=1 keeps the clusters, and takes them as they are next time. E2E_INSTANCE gives them
# another name, for a second checkout. What failed is repeated at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

instance=${E2E_INSTANCE:-e2e}
record=_output/$instance.json

# The tests take their clusters down themselves, unless they are interrupted.
finish() {
  local status=$?
  [[ $status == 0 ]] || keep_logs
  [[ ${E2E_KEEP:-} == 1 ]] || .playground/bin/playground --instance "$instance" down
  [[ $status == 0 ]] || failures
}
trap finish EXIT

# keep_logs keeps the ends of the logs of the nodes' daemons, kube-apiserver and
# kube-controller-manager among them, where the tests could not do it themselves.
keep_logs() {
  local kept=.playground/artifacts-$instance/nodes log to
  [[ ! -d $kept ]] || return 0
  for log in ".playground/$instance"/logs/*/*.log; do
    [[ -f $log ]] || continue
    to=$kept/$(basename "$(dirname "$log")")
    mkdir -p "$to"
    tail -c 1M "$log" >"$to/$(basename "$log")"
  done
}

# failures prints the output of the tests that failed.
failures() {
  printf '\nWhat failed (everything is in %s):\n' "$record"
  jq -rjs '(map(select(.Action == "fail").Test) | unique) as $failed
    | .[] | select(.Action == "output" and (.Test | IN($failed[])))
    | .Output | select(startswith("=== ") | not)' "$record"
}

mkdir -p _output
go test -tags e2e -count=1 -timeout=60m -json ./test/e2e "$@" | tee "$record" | jq -j --unbuffered '.Output // empty'
