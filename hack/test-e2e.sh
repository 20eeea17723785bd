#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs the end-to-end tests on two clusters of their own. Arguments go to go
# test. E2E_KEEP=1 keeps the clusters, and takes them as they are next time;
# E2E_INSTANCE gives them another name, for a second checkout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The tests take their clusters down themselves, unless they are cut short.
down() {
  [[ ${E2E_KEEP:-} == 1 ]] || .playground/bin/playground --instance "${E2E_INSTANCE:-e2e}" down
}
trap down EXIT

go test -tags e2e -count=1 -timeout=30m -v ./test/e2e "$@"
