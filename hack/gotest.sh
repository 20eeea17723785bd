#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs tests, records their output in _output/NAME.json, and names the failed ones in the last lines:
#   hack/gotest.sh NAME FORMAT ARGUMENT...
# FORMAT is one of gotestsum's: standard-quiet prints the output of failed tests only, standard-verbose all output.
# Arguments are passed to go test, which does not run vet, because make verify does. After --raw-command they are a
# command instead, whose output is like that of go test -json.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

name=$1 format=$2
shift 2
case $1 in
  --raw-command) shift && set -- --raw-command -- "$@" ;;
  *) set -- -- -vet=off "$@" ;;
esac

mkdir -p "${root}/_output"
record=_output/${name}.json
go tool -modfile="${root}/hack/tools/gotestsum/go.mod" gotestsum --format "${format}" --jsonfile "${root}/${record}" "$@" || {
  printf '\nFailed, with all output in %s:\n' "${record}"
  jq -r 'select(.Action == "fail") | "  \(.Package) \(.Test // "")"' "${root}/${record}" | sort -u
  exit 1
}
