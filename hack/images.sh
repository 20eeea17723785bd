#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Packs the programs in bin/ into images, _output/images/<program>.tar, and writes next to them
#
#   <program>.spdx.json  the Go modules and Debian packages of the image, in the format SPDX 2.3
#   digests.yaml         the digests of the images, as values of the chart
#   version              the tag of all images
#
# The tag is VERSION if it is set, otherwise the git tag of HEAD, otherwise dev- and a digest of the programs. An
# existing image is packed again only if its program, its tag, .playground/bin/playground or this script has changed.
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
packer=.playground/bin/playground
mkdir -p "${out}"

version=${VERSION:-$(git describe --tags --exact-match 2>/dev/null || true)}
if [[ -z ${version} ]]; then
  version=dev-$(cd bin && sha256sum "${programs[@]}" | sha256sum | cut -c1-12)
fi

# The time of documents is that of the commit, so that the same commit always has the same documents.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

digests="# The digests of the images with the tag ${version}, as values of the chart.
images:
  digests:"
for program in "${programs[@]}"; do
  tar=${out}/${program}.tar
  sources=$({ echo "${version}"; cat "bin/${program}" "${packer}" hack/images.sh; } | sha256sum)
  if [[ ! -f ${tar} || $(cat "${tar}.sources" 2>/dev/null) != "${sources}" ]]; then
    case ${program} in
      federation-gateway | federation-route) options=(--user 0:0 --deb iptables) ;;
      federation-mover) options=(--user 0:0 --deb rsync --without-deb init-system-helpers) ;;
      *) options=(--user 65532) ;;
    esac
    rm -f "${tar}.sources"
    "${packer}" image --tag "liqo.io/${program}:${version}" "${options[@]}" --output "${tar}" "bin/${program}"
    echo "${sources}" >"${tar}.sources"
  fi
  "${packer}" sbom --output "${out}/${program}.spdx.json" "${tar}"
  digests+=$'\n'"    ${program}: $("${packer}" digest "${tar}")"
done
echo "${digests}" >"${out}/digests.yaml"
echo "${version}" >"${out}/version"
echo "${out}: ${programs[*]}, version ${version}"
