#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Renders the kustomize base, and builds it with the kubectl of the playground or of PATH, if there
# is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

base=$(mktemp -d)
trap 'rm -rf "${base}"' EXIT

hack/kustomize.sh "${base}"
kubectl=$(PATH=.playground/bin:${PATH} command -v kubectl) || exit 0
"${kubectl}" kustomize "${base}" >/dev/null
