#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs the unit tests of every module under the race detector. Arguments are passed to go test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=1

# Packages without tests are left out: building all generated code for the race detector takes longer than the
# tests.
tested='{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}'

for module in . hack/playground; do
  mapfile -t packages < <(cd "${module}" && go list -f "${tested}" ./... | grep -v '^liqo.io/federation/test/integration')
  (cd "${module}" && "${OLDPWD}/hack/gotest.sh" "unit-$(basename "$(go list -m)")" standard-quiet -race "$@" "${packages[@]}")
done
