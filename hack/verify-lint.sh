#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs staticcheck in every module, without generated code. It is pinned in go.mod and configured in
# staticcheck.conf.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p bin
go build -o bin/staticcheck honnef.co/go/tools/cmd/staticcheck
mapfile -t packages < <(go list -tags e2e ./... | grep -v '^liqo.io/federation/generated/')
bin/staticcheck -tags e2e "${packages[@]}"
(cd hack/playground && ../../bin/staticcheck ./...)
