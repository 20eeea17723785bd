#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Tells which Go files are not as gofmt writes them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t files < <(git ls-files --cached --others --exclude-standard --deduplicate '*.go' | while read -r f; do [[ -f ${f} ]] && echo "${f}"; done)
wrong=$(gofmt -l "${files[@]}")
if [[ -n ${wrong} ]]; then
  echo "${wrong}"
  echo "Run gofmt -w on these."
  exit 1
fi
