#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Lists words that the glossary replaces, in code, pages, manifests and scripts, and lines of pages
# with more than 120 columns. Tables, links and code blocks of pages may be longer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p bin
# Vale parses languages with a library in C.
CGO_ENABLED=1 go build -C hack/tools/vale -o ../../../bin/vale github.com/vale-cli/vale/v3/cmd/vale

# generated/ repeats the comments of API types, which are in the list. Lists of forbidden words, recorded data and
# package-lock.json have no texts of the project.
mapfile -t files < <(git ls-files '*.go' '*.md' '*.yaml' '*.yml' '*.tpl' '*.txt' '*.sh' '*.mjs' '*.conf' Makefile \
  .ci/run artifacts/chart/values.schema.json hack/docs/package.json |
  grep -v -e '^generated/' -e '/testdata/' -e '/zz_generated' -e '/generated\.' -e '^hack/prose/')
bin/vale --config hack/prose/vale.ini --output line "${files[@]}"

# forbidden.txt has one line for each token of the rules, which must find the word in this line.
status=0
tokens=$(cat hack/prose/styles/Federation/*.yml | grep -c "^  - '")
found=$(bin/vale --config hack/prose/vale.ini --output line hack/prose/forbidden.txt | cut -d: -f2) || true
if ! diff <(seq "${tokens}") <(echo "${found}"); then
  echo "hack/prose/forbidden.txt: each token needs a line with exactly one alert"
  status=1
fi

while read -r page; do
  awk -v page="${page}" '
    /^```/ { code = !code }
    !code && !/^\|/ && !/\]\([^)]*\)[.,]?$/ && length > 120 { print page ":" FNR ": " length " columns"; wrong = 1 }
    END { exit wrong }' "${page}" || status=1
done < <(git ls-files '*.md' | grep -v -x docs/api-reference.md)
exit "${status}"
