#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Lists broken links between pages, to headings and to files of the repository. Links to other hosts are
# not followed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go run ./hack/tools/checklinks
