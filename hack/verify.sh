#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs every hack/verify-*.sh, prints the result and the time of each, and fails if one fails. The output
# of a check that succeeds is not printed, except a line that begins with "summary: ".
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=()
for script in hack/verify-*.sh; do
  name=${script#hack/verify-}
  name=${name%.sh}
  start=${SECONDS}
  if output=$("${script}" 2>&1); then
    summary=$(sed -n 's/^summary: /  /p' <<<"${output}")
    printf 'ok    %-10s %3ds%s\n' "${name}" $((SECONDS - start)) "${summary}"
  else
    printf 'FAIL  %-10s %3ds\n' "${name}" $((SECONDS - start))
    sed 's/^/      /' <<<"${output}"
    failed+=("${name}")
  fi
done
if [[ ${#failed[@]} != 0 ]]; then
  echo "make verify: ${failed[*]} failed" >&2
  exit 1
fi
