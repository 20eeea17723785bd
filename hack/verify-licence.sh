#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Tells which sources lack the two lines of copyright and licence at their top
# (below the interpreter's line and Helm's comment opener).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wrong=()
while read -r file; do
  [[ -f ${file} ]] || continue
  head -n 5 "${file}" | tr '\n' '~' |
    grep -qE '(^|~)(//|#) Copyright The Liqo Federation Authors\.~(//|#) SPDX-License-Identifier: Apache-2\.0~' ||
    wrong+=("${file}")
done < <(git ls-files --cached --others --exclude-standard --deduplicate \
  '*.go' '*.sh' '*.yaml' '*.yml' '*.tpl' '*.conf' Makefile .ci/run ':!:*/testdata/*')
if [[ ${#wrong[@]} != 0 ]]; then
  printf '%s\n' "${wrong[@]}"
  echo "These files lack the licence header; see the top of this script."
  exit 1
fi
