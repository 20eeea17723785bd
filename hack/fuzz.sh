#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs every fuzz test for a while; the argument says how long each, 30s by
# default. What one finds is kept beside it, in testdata/fuzz: mend it, and
# check it in.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

while IFS=: read -r file _ name; do
  echo "${name}"
  go test "./$(dirname "${file}")" -run '^$' -fuzz "^${name}\$" -fuzztime "${1:-30s}" -parallel 2 | tail -n 1
done < <(git grep -n -o -E 'func Fuzz[A-Za-z]+' -- '*_test.go' | sed 's/func //')
