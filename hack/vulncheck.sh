#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Reports known vulnerabilities whose code the programs call, with govulncheck as pinned in hack/tools/govulncheck:
#
#   hack/vulncheck.sh [PACKAGE...]
#
# All packages are checked by default. GOVULNDB is the URL of the database, https://vuln.go.dev by default; a copy on
# this machine has a URL that begins with file://. Without a database nothing is checked, and the script fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
database=${GOVULNDB:-https://vuln.go.dev}

if ! curl --silent --fail --location --max-time 10 --output /dev/null "${database}/index/db.json"; then
  echo "Nothing was checked: the database of vulnerabilities at ${database} is not available." >&2
  echo "Run make vulncheck on a machine with access to it, or set GOVULNDB to the URL of a copy." >&2
  exit 1
fi
mkdir -p bin
go build -C hack/tools/govulncheck -o ../../../bin/govulncheck golang.org/x/vuln/cmd/govulncheck
if [[ $# == 0 ]]; then
  set -- ./...
fi
bin/govulncheck -db "${database}" "$@"
