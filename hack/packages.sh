#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Installs those of the named Debian packages that are missing. When none is,
# it does nothing and needs neither root nor network.
set -euo pipefail

if ! command -v dpkg-query >/dev/null; then
  echo "This is not a Debian machine: see to it that it has what these packages bring: $*" >&2
  exit 0
fi

missing=()
for package in "$@"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "${package}" 2>/dev/null || true)
  [[ ${status} == installed ]] || missing+=("${package}")
done
if [[ ${#missing[@]} == 0 ]]; then
  exit 0
fi

if [[ $(id -u) != 0 ]]; then
  echo "These Debian packages are missing: ${missing[*]}" >&2
  echo "Run this again as root, or install them: apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "installing Debian packages: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
