#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Checks that go.mod and go.sum of each module are tidy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

while read -r file; do
  go -C "$(dirname "${file}")" mod tidy -diff
done < <(git ls-files '*go.mod')
