#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Checks that hack/released names a commit, whole, and one of this history if this checkout has it:
# the test of upgrades builds it. An empty commit is this checkout itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

commit=$(sed -n 's/^commit=//p' hack/released)
[[ -n ${commit} ]] || exit 0
[[ ${commit} =~ ^[0-9a-f]{40}$ ]] || {
  echo "hack/released names commit ${commit}: it has to be 40 hexadecimal digits, or empty" >&2
  exit 1
}
git cat-file -e "${commit}^{commit}" 2>/dev/null || exit 0
git merge-base --is-ancestor "${commit}" HEAD || {
  echo "hack/released names commit ${commit}, which is not in the history of HEAD: name one that is" >&2
  exit 1
}
