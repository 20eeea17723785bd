#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs golangci-lint, as pinned in hack/tools/golangci and configured in .golangci.yml, in every module
# with code. Generated code is not checked.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p bin
go build -C hack/tools/golangci -o ../../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
bin/golangci-lint run ./apiserver/... ./controllers/... ./hack/... ./netagent/... ./registry/... ./test/...
(cd hack/playground && ../../bin/golangci-lint run --config ../../.golangci.yml ./...)
