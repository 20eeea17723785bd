#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Renders the chart as a kustomize base. Helm hooks and certificates are not part of it.
#
#   hack/kustomize.sh [FOLDER [OPTIONS OF helm template...]]
#
# FOLDER is _output/kustomize by default. Options set values, for example --set clusterName=rome.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-_output/kustomize}

mkdir -p "${folder}"
cp artifacts/kustomize/kustomization.yaml artifacts/kustomize/namespace.yaml "${folder}"
{
  echo '# Rendered from artifacts/chart by hack/kustomize.sh.'
  .playground/bin/helm template liqo artifacts/chart --namespace liqo --kube-version 1.37.1 --no-hooks \
    --set clusterName=unnamed,certificates.create=false,certificates.caBundle=unset "${@:2}" |
    grep -v -e '^# Source: ' -e 'helm.sh/chart: ' -e '^# Copyright ' -e '^# SPDX-' |
    sed 's|app.kubernetes.io/managed-by: Helm|app.kubernetes.io/managed-by: kustomize|'
} >"${folder}/federation.yaml"
