#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Checks that generated code is up to date: runs the generators in a copy, and prints the differences.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy=$(mktemp -d)
trap 'rm -rf "${copy}"' EXIT

mkdir -p "${copy}/apiserver" "${copy}/hack/tools" "${copy}/docs"
cp -r apiserver/apis "${copy}/apiserver/"
cp hack/update-codegen.sh hack/boilerplate.go.txt "${copy}/hack/"
cp -r hack/tools/apireference "${copy}/hack/tools/"
cp go.mod go.sum "${copy}/"
find generated -name '*_expansion.go' ! -name generated_expansion.go -exec cp --parents -t "${copy}" {} +
log=$("${copy}/hack/update-codegen.sh" 2>&1) || { echo "${log}"; exit 1; }

stale=0
for path in apiserver/apis generated docs/api-reference.md; do
  diff -Nru "${path}" "${copy}/${path}" || stale=1
done
if [[ ${stale} == 1 ]]; then
  echo "Generated code does not match the API types: run make generate and commit the result."
  exit 1
fi
