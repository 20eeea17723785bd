#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Packs the programs in bin/ into images, _output/images/<program>.tar, and writes the tag of all images to
# _output/images/version. The tag is VERSION if it is set, otherwise the git tag of HEAD, otherwise dev- and a
# digest of the programs.
#
# Images of network agents contain Debian's iptables and its dependencies. The image of the mover contains rsync,
# without the packages that only maintainer scripts use. The programs in these images run as root.
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
