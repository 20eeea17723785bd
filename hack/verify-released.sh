#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Checks that the commit in hack/released, which the upgrade test builds, is a full id and an ancestor of
# HEAD. An empty commit, and one that this checkout lacks, are accepted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

commit=$(sed -n 's/^commit=//p' hack/released)
[[ -n ${commit} ]] || exit 0
[[ ${commit} =~ ^[0-9a-f]{40}$ ]] || {
  echo "hack/released: commit ${commit} must be empty or have 40 hexadecimal digits" >&2
  exit 1
}
git cat-file -e "${commit}^{commit}" 2>/dev/null || exit 0
git merge-base --is-ancestor "${commit}" HEAD || {
  echo "hack/released: commit ${commit} is no ancestor of HEAD" >&2
  exit 1
}
