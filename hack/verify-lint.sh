#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs staticcheck, as pinned in go.mod and configured in staticcheck.conf, in
# every module. What is generated follows the generators' taste, not ours.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p bin
go build -o bin/staticcheck honnef.co/go/tools/cmd/staticcheck
mapfile -t packages < <(go list -tags e2e ./... | grep -v '^liqo.io/federation/generated/')
bin/staticcheck -tags e2e "${packages[@]}"
(cd hack/playground && ../../bin/staticcheck ./...)
