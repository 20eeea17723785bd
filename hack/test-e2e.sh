#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs the end-to-end tests on two clusters of their own. Arguments are passed to go test:
#   -groups=network,storage  runs these groups, in this order
#   -short                   omits long steps
#   -layout=three            uses three clusters, a hub and two leaves
# Environment:
#   E2E_KEEP=1     keeps the clusters, and reuses them in the next run
#   E2E_INSTANCE   the name of the clusters (e2e), for runs in several checkouts
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

instance=${E2E_INSTANCE:-e2e}

# The tests delete their clusters when they end. If they are interrupted, this deletes the clusters.
finish() {
  local status=$?
  [[ $status == 0 ]] || keep_logs
  [[ ${E2E_KEEP:-} == 1 ]] || .playground/bin/playground --instance "$instance" down
}
trap finish EXIT

# keep_logs copies the ends of the logs of all daemons of the nodes, kube-apiserver included, unless the tests
# have done so.
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

hack/gotest.sh "$instance" standard-verbose -tags e2e -count=1 -timeout=60m ./test/e2e "$@"
