#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs the unit tests that a change can affect under the race detector, and lists the other tests that it can
# affect. Arguments are passed to go test.
#
# The change is the difference to commit BASE, including uncommitted files. The default of BASE is the merge base
# with the upstream branch or with origin/main, otherwise HEAD.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

base=${BASE:-$(git merge-base HEAD '@{upstream}' 2>/dev/null || git merge-base HEAD origin/main 2>/dev/null || echo HEAD)}
mapfile -t files < <({ git diff --name-only "${base}"; git ls-files --others --exclude-standard; } | sort -u)
if [[ ${#files[@]} == 0 ]]; then
  echo "nothing differs from ${base}"
  exit
fi

# reach FILE prints the tests, except unit tests, that a change of a file can affect: verify, netns, integration,
# groups of the end-to-end tests, and PART=<part> for a part of the long tests. The first matching pattern counts.
reach() {
  case $1 in
    *.md) echo verify ;;
    hack/released) echo verify upgrade ;;
    hack/playground/* | test/e2e/* | test/harness/*) echo verify e2e ;;
    hack/* | Makefile) echo verify ;;
    test/integration/*) echo verify integration ;;
    test/netns/*) echo verify netns ;;
    test/shop/*) echo verify services network ;;
    test/*) echo verify ;;
    artifacts/chart/templates/*storage*) echo verify integration install storage PART=storage PART=moves ;;
    artifacts/chart/templates/*network*) echo verify integration install network ;;
    artifacts/chart/templates/policies* | artifacts/chart/templates/rbac*)
      echo verify integration install peering offloading tenancy services ;;
    artifacts/chart/*) echo verify integration install peering upgrade uninstall ;;
    artifacts/kustomize/*) echo verify ;;
    artifacts/*) echo verify services storage network ;;
    # Every controller uses the kit, whatever the name of its file.
    controllers/kit/*) echo verify integration e2e ;;
    netagent/* | apiserver/netmap/*) echo verify netns integration network ;;
    apiserver/trust/* | apiserver/pattern/* | controllers/provider/namespace/* | controllers/provider/admission/*)
      echo verify integration offloading tenancy policies ;;
    controllers/virtualkubelet/pods/addresses*) echo verify integration offloading tenancy network ;;
    controllers/link/replication/*) echo verify integration peering services network ;;
    controllers/storage/move* | apiserver/volume/* | registry/*virtualvolume*)
      echo verify integration storage PART=storage PART=moves ;;
    controllers/*network* | controllers/link/tunnel/* | controllers/link/gateway/* | controllers/*addresses* | registry/*address* | apiserver/addresses/*) echo verify integration network ;;
    controllers/*storage* | registry/*volume*) echo verify integration storage PART=storage ;;
    controllers/*virtualkubelet*) echo verify integration offloading services resilience ;;
    controllers/*services* | controllers/mcs/* | controllers/*serviceexport* | apiserver/reflection/*)
      echo verify integration services ;;
    controllers/*peering* | apiserver/identity/* | apiserver/quota/*)
      echo verify integration peering resilience ;;
    controllers/*offloading* | controllers/*shadow* | controllers/*pods* | apiserver/placement/* | apiserver/podspec/*)
      echo verify integration offloading resilience ;;
    *_test.go) echo verify ;;
    *) echo verify integration e2e ;;
  esac
}

# package FILE prints the folder of the Go package that a file belongs to: the nearest folder with Go files.
package() {
  local folder
  folder=$(dirname "$1")
  while [[ ${folder} != . ]] && ! compgen -G "${folder}/*.go" >/dev/null; do
    folder=$(dirname "${folder}")
  done
  echo "${folder}"
}

# tested reads folders of changed packages, and prints the packages of the current module whose unit tests depend
# on one of them.
tested() {
  local module
  module=$(go list -m)
  awk -v module="${module}" '
    NR == FNR { changed[$1 == "." ? module : module "/" $1]; next }
    $1 ~ /\.test$/ && $1 !~ /\/test\/integration/ {
      sub(/\.test$/, "", $1)
      for (i = 1; i <= NF; i++) if ($i in changed) { print $1; next }
    }' - <(go list -test -f '{{.ImportPath}}{{range .Deps}} {{.}}{{end}}' ./...)
}

reached=$(for file in "${files[@]}"; do reach "${file}"; done | tr ' ' '\n' | sort -u)
status=0
for module in . hack/playground; do
  cd "${module}"
  mapfile -t packages < <(
    for file in "${files[@]}"; do
      case ${file} in
        hack/playground/*) [[ ${module} == . ]] || package "${file#hack/playground/}" ;;
        go.mod | go.sum) [[ ${module} != . ]] || go list -f '{{.Dir}}' ./... | sed "s|^${PWD}/||" ;;
        # test/source and test/settings depend on all pages and sources.
        *) [[ ${module} != . ]] || printf '%s\n' "$(package "${file}")" test/source test/settings ;;
      esac
    done | sort -u | tested
  )
  echo "${#packages[@]} packages of $(go list -m) have unit tests that the change can affect"
  [[ ${#packages[@]} == 0 ]] || CGO_ENABLED=1 go test -race "$@" "${packages[@]}" || status=1
  cd "${OLDPWD}"
done

echo 'It can also affect:'
for target in verify netns integration; do
  grep -qx "${target}" <<<"${reached}" || continue
  [[ ${target} == verify ]] && echo '  make verify' || echo "  make test-${target}"
done
groups=$(grep -vxE 'verify|netns|integration|PART=.*' <<<"${reached}" | paste -sd, || true)
case ,${groups}, in
  ,,) ;;
  *,e2e,*) echo '  make test-e2e' ;;
  *) echo "  make test-e2e GROUP=${groups}" ;;
esac
sed -n 's/^PART=/  make test-full &/p' <<<"${reached}"
exit "${status}"
