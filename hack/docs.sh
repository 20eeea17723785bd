#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Renders README.md, the other pages at the top and docs/ as a site with search and navigation into
# _output/docs, and checks its links. hack/docs/ has the configuration and the pinned versions, which
# are installed in _output/site.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v npm >/dev/null || hack/packages.sh nodejs npm

site=${PWD}/_output/site
export TREE=${PWD} PAGES=${site}/pages OUT=${PWD}/_output/docs
mkdir -p "${site}/.vitepress"
rm -rf "${PAGES}" "${OUT}"
cp hack/docs/package.json hack/docs/package-lock.json hack/docs/.npmrc "${site}"
cp hack/docs/config.mjs "${site}/.vitepress"

while read -r page; do
  [[ -f ${page} ]] || continue
  copy=${PAGES}/${page/%README.md/index.md}
  mkdir -p "$(dirname "${copy}")"
  cp "${page}" "${copy}"
done < <(git ls-files --cached --others --exclude-standard --deduplicate ':(glob)*.md' ':(glob)docs/**/*.md')

if ! cmp -s "${site}/package-lock.json" "${site}/node_modules/.installed"; then
  npm --prefix "${site}" ci
  cp "${site}/package-lock.json" "${site}/node_modules/.installed"
fi
npm --prefix "${site}" --silent run build
go run ./hack/tools/checklinks -site _output/docs
echo "The site is in _output/docs. Any web server can serve it, for example: npm --prefix _output/site run preview"
