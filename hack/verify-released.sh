#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Checks that hack/released names a commit of this history, which the test of upgrades builds. A
# shallow clone, or a checkout without git, has no history to check.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

commit=$(sed -n 's/^commit=//p' hack/released)
[[ -n ${commit} && $(git rev-parse --is-shallow-repository 2>/dev/null) == false ]] || exit 0
git merge-base --is-ancestor "${commit}" HEAD || {
  echo "hack/released names commit ${commit}, which is not in the history of HEAD: name one that is" >&2
  exit 1
}
