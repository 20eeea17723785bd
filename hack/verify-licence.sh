#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Lists the sources without the two lines of copyright and licence at the top.
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
  echo "These files have no licence header: copy the one at the top of this script."
  exit 1
fi
