#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs go vet in every module.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go vet -tags e2e ./...
go vet -C hack/playground ./...
