#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Checks that the history of this checkout has the commit that hack/released names, which the test
# of upgrades builds. Without a commit it upgrades from the checkout itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

commit=$(sed -n 's/^commit=//p' hack/released)
[[ -n ${commit} ]] || exit 0
git merge-base --is-ancestor "${commit}" HEAD || {
  echo "hack/released names commit ${commit}, which the history of this checkout lacks: git fetch --unshallow" >&2
  exit 1
}
