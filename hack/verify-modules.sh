#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Tells whether go.mod and go.sum of each module name what the code needs and
# nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

while read -r file; do
  go -C "$(dirname "${file}")" mod tidy -diff
done < <(git ls-files '*go.mod')
