#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Checks that the chart renders as a kustomize base, and that kubectl, if it is installed, accepts it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

base=$(mktemp -d)
trap 'rm -rf "${base}"' EXIT

hack/kustomize.sh "${base}"
kubectl=$(PATH=.playground/bin:${PATH} command -v kubectl) || exit 0
"${kubectl}" kustomize "${base}" >/dev/null
