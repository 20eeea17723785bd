#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Packs the programs of bin/ into image tars, _output/images/<program>.tar, and
# writes their tag to _output/images/version: the git tag of a release, else
# "dev-" and a digest of the programs, so that another build is another image.
# VERSION in the environment overrides both.
#
# With the argument "network" it packs the agents of the network, under the same
# tag and into _output/network: they run as root and bring the iptables of
# Debian, with what that needs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

programs=(federation-apiserver federation-controller-manager virtual-kubelet)
network=(gateway route)
pack=("${programs[@]}")
out=_output/images
options=(--user 65532)
if [[ ${1:-} == network ]]; then
  pack=("${network[@]}")
  out=_output/network
  options=(--user 0:0 --deb iptables)
fi
mkdir -p "${out}"

version=${VERSION:-$(git describe --tags --exact-match 2>/dev/null || true)}
if [[ -z ${version} ]]; then
  version=dev-$(cd bin && sha256sum "${programs[@]}" "${network[@]}" | sha256sum | cut -c1-12)
fi

for program in "${pack[@]}"; do
  tar=${out}/${program}.tar
  if [[ $(cat "${tar}.tag" 2>/dev/null) == "${version}" && ${tar} -nt bin/${program} ]]; then
    continue
  fi
  rm -f "${tar}.tag"
  .playground/bin/playground image --tag "liqo.io/${program}:${version}" "${options[@]}" --output "${tar}" "bin/${program}"
  echo "${version}" >"${tar}.tag"
done
echo "${version}" >"${out}/version"
echo "${out}: ${pack[*]}, version ${version}"
