#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Generates code and docs/api-reference.md from the API types. The generators are pinned in go.mod.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

module=liqo.io/federation
internal=${module}/apiserver/apis/federation
served=${internal}/v1alpha1
header=hack/boilerplate.go.txt

step() { echo "generating $1" >&2; }

find apiserver/apis -name 'zz_generated.*.go' -delete
mkdir -p generated
# client-gen does not support some methods of clients, which are written by hand in <kind>_expansion.go.
find generated -type f \( ! -name '*_expansion.go' -o -name 'generated_expansion.go' \) -delete

step deepcopy
go tool deepcopy-gen --go-header-file "${header}" --output-file zz_generated.deepcopy.go "${internal}" "${served}"
step defaults
go tool defaulter-gen --go-header-file "${header}" --output-file zz_generated.defaults.go "${served}"
step conversion
go tool conversion-gen --go-header-file "${header}" --output-file zz_generated.conversion.go "${served}"

step protobuf
# protoc requires this layout of packages and tools.
sources=$(mktemp -d)
trap 'rm -rf "${sources}"' EXIT
mkdir -p "${sources}/bin" "${sources}/github.com/gogo" "${sources}/k8s.io" "${sources}/${module%/*}"
go build -o "${sources}/bin/" k8s.io/code-generator/cmd/go-to-protobuf k8s.io/code-generator/cmd/go-to-protobuf/protoc-gen-gogo golang.org/x/tools/cmd/goimports
ln -s "${PWD}" "${sources}/${module}"
for imported in github.com/gogo/protobuf k8s.io/api k8s.io/apimachinery; do
  ln -s "$(go list -m -f '{{.Dir}}' "${imported}")" "${sources}/${imported}"
done
machinery=k8s.io/apimachinery/pkg
# gogo contains descriptor.proto, which Debian has in another package than protoc.
PATH="${sources}/bin:${PATH}" go-to-protobuf --go-header-file "${header}" --output-dir "${sources}" \
  --proto-import "${sources}" --proto-import "${sources}/github.com/gogo/protobuf/protobuf" \
  --apimachinery-packages "-${machinery}/util/intstr,-${machinery}/api/resource,-${machinery}/runtime/schema,-${machinery}/runtime,-${machinery}/apis/meta/v1,-k8s.io/api/core/v1,-k8s.io/api/discovery/v1" \
  --packages "${served}"

step openapi
# The packages with types that types of the API contain. The generator must not write to them, as they are in the
# read-only module cache.
dependencies=(
  k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/version
  k8s.io/apimachinery/pkg/api/resource k8s.io/apimachinery/pkg/util/intstr k8s.io/api/core/v1 k8s.io/api/discovery/v1
)
go tool openapi-gen --go-header-file "${header}" "${dependencies[@]/#/--readonly-pkg=}" \
  --output-dir generated/openapi --output-pkg "${module}/generated/openapi" --output-file zz_generated.openapi.go \
  --output-model-name-file zz_generated.model_name.go --report-filename generated/openapi/violations.report \
  "${dependencies[@]}" "${served}"

step "apply configurations"
go tool applyconfiguration-gen --go-header-file "${header}" \
  --output-dir generated/applyconfiguration --output-pkg "${module}/generated/applyconfiguration" "${served}"
step clientset
go tool client-gen --go-header-file "${header}" --clientset-name versioned --input-base "" --input "${served}" \
  --output-dir generated/clientset --output-pkg "${module}/generated/clientset" \
  --apply-configuration-package "${module}/generated/applyconfiguration"
step listers
go tool lister-gen --go-header-file "${header}" \
  --output-dir generated/listers --output-pkg "${module}/generated/listers" "${served}"
step informers
go tool informer-gen --go-header-file "${header}" \
  --output-dir generated/informers --output-pkg "${module}/generated/informers" \
  --versioned-clientset-package "${module}/generated/clientset/versioned" \
  --listers-package "${module}/generated/listers" "${served}"

step "the API reference"
go run ./hack/tools/apireference >docs/api-reference.md
