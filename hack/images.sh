#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Packs the programs of bin/ into image tars, _output/images/<program>.tar, and
# writes their tag to _output/images/version: the git tag of a release, else
# "dev-" and a digest of the programs, so that another build is another image.
# VERSION in the environment overrides both.
#
# The agents of the network run as root and bring the iptables of Debian, with
# what that needs. The mover brings rsync, without what only the scripts of its
# package need.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

programs=(
  federation-apiserver federation-controller-manager federation-virtual-kubelet federation-mover
  federation-gateway federation-route
)
out=_output/images
mkdir -p "${out}"

version=${VERSION:-$(git describe --tags --exact-match 2>/dev/null || true)}
if [[ -z ${version} ]]; then
  version=dev-$(cd bin && sha256sum "${programs[@]}" | sha256sum | cut -c1-12)
fi

for program in "${programs[@]}"; do
  tar=${out}/${program}.tar
  if [[ $(cat "${tar}.tag" 2>/dev/null) == "${version}" && ${tar} -nt bin/${program} ]]; then
    continue
  fi
  case ${program} in
    federation-gateway | federation-route) options=(--user 0:0 --deb iptables) ;;
    federation-mover) options=(--user 0:0 --deb rsync --without-deb init-system-helpers) ;;
    *) options=(--user 65532) ;;
  esac
  rm -f "${tar}.tag"
  .playground/bin/playground image --tag "liqo.io/${program}:${version}" "${options[@]}" --output "${tar}" "bin/${program}"
  echo "${version}" >"${tar}.tag"
done
echo "${version}" >"${out}/version"
echo "${out}: ${programs[*]}, version ${version}"
