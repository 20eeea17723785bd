#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs every fuzz test.
#
#   hack/fuzz.sh [TIME PER TEST, default 30s]
#
# A failing input is written to testdata/fuzz in the folder of the test: commit it together with the fix.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

while IFS=: read -r file _ name; do
  echo "${name}"
  if ! out=$(go test "./$(dirname "${file}")" -run '^$' -fuzz "^${name}\$" -fuzztime "${1:-30s}" -parallel 2 2>&1); then
    # When its time is over, the fuzzer may report a failure without an input: https://go.dev/issue/75804
    if [[ ${out} != *'context deadline exceeded'* || ${out} == *'Failing input written'* ]]; then
      printf '%s\n' "${out}"
      exit 1
    fi
  fi
  tail -n 1 <<<"${out}"
done < <(git grep -n -o -E 'func Fuzz[A-Za-z]+' -- '*_test.go' | sed 's/func //')
