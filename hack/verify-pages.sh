#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Checks that the pages which are written from the code are up to date, for example docs/reasons.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go test ./test/settings || { echo "Run go test ./test/settings -update, and commit the result."; exit 1; }
