#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Renders the kustomize base once more, and tells what differs from what is
# checked in.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy=$(mktemp -d)
trap 'rm -rf "${copy}"' EXIT

hack/update-kustomize.sh "${copy}"
diff -u artifacts/kustomize/federation.yaml "${copy}/federation.yaml" ||
  { echo "The kustomize base is not what the chart renders: run make generate and commit the result."; exit 1; }
