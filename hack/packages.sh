#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Installs missing Debian packages.
#
#   hack/packages.sh PACKAGE...
#
# If all packages are installed, it requires neither root nor the network.
set -euo pipefail

if ! command -v dpkg-query >/dev/null; then
  echo "This is not a Debian machine. Install the equivalents of these packages yourself: $*" >&2
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
  echo "Debian packages are missing. Run this as root, or run: apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "installing Debian packages: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
