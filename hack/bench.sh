#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Measures plain against offloaded pods on two clusters of its own, and prints
# one table. Arguments go to the benchmark, see --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p bin
go build -ldflags '-s -w' -o bin/bench ./test/bench
exec bin/bench "$@"
