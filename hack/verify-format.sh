#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Lists the Go files that are not formatted by gofmt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t files < <(git ls-files --cached --others --exclude-standard --deduplicate '*.go' | while read -r f; do [[ -f ${f} ]] && echo "${f}"; done)
wrong=$(gofmt -l "${files[@]}")
if [[ -n ${wrong} ]]; then
  echo "${wrong}"
  echo "These files are not formatted: run gofmt -w on them."
  exit 1
fi
