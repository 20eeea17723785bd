#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Lists the links between pages, to headings and to files of the tree that
# lead nowhere. Links to other hosts are not followed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go run ./hack/tools/checklinks
