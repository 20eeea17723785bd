#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Packs the sample applications into images with the tag dev, _output/samples/<name>.tar: the shop, and the
# databases PostgreSQL and etcd. An existing image is packed again only if its program or this script has changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=_output/samples
mkdir -p bin "${out}"

# pack NAME PROGRAM [OPTION...] packs a program into an image. Options are flags of playground image.
pack() {
  local name=$1 program=$2 tar=${out}/$1.tar sources
  shift 2
  sources=$(cat "${program}" hack/samples.sh | sha256sum)
  if [[ -f ${tar} && $(cat "${tar}.sources" 2>/dev/null) == "${sources}" ]]; then
    return
  fi
  rm -f "${tar}.sources"
  .playground/bin/playground image --tag "liqo.io/${name}:dev" "$@" --output "${tar}" "${program}"
  echo "${sources}" >"${tar}.sources"
}

go build -ldflags '-s -w' -o bin/ ./test/shop ./test/postgres
pack shop bin/shop

# Debian's PostgreSQL 15, without the packages that only maintainer scripts and wrappers use, and without LLVM,
# which is half of its size. initdb requires a shell. Clients use the socket in /var/run/postgresql.
postgres=(--deb postgresql-15 --deb libc-bin --deb dash --link /var/run/postgresql=/tmp)
for package in adduser debconf debianutils dpkg init-system-helpers libjson-perl libllvm14 locales lsb-base perl \
  postgresql-common ssl-cert sysvinit-utils; do
  postgres+=(--without-deb "${package}")
done
for program in createdb initdb pg_amcheck pg_checksums pg_dump pg_isready pgbench psql; do
  postgres+=(--link "/usr/local/bin/${program}=/usr/lib/postgresql/15/bin/${program}")
done
pack postgres bin/postgres "${postgres[@]}"

.playground/bin/playground build --only etcd
pack etcd .playground/bin/etcd
echo "${out}: etcd postgres shop"
