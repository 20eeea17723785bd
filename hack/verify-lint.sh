#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs staticcheck, as pinned in go.mod and configured in staticcheck.conf, in
# every module, and golangci-lint, as pinned in hack/tools/golangci and configured
# in .golangci.yml. Generated code is not checked.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p bin
go build -o bin/staticcheck honnef.co/go/tools/cmd/staticcheck
mapfile -t packages < <(go list -tags e2e ./... | grep -v '^liqo.io/federation/generated/')
bin/staticcheck -tags e2e "${packages[@]}"
(cd hack/playground && ../../bin/staticcheck ./...)

go build -C hack/tools/golangci -o ../../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
bin/golangci-lint run ./apiserver/... ./controllers/... ./hack/... ./netagent/... ./registry/... ./test/...
