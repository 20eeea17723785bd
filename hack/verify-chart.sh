#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Lints the chart, renders it as its users do, and sees to it that values which
# cannot work are refused with a sentence.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

render() {
  .playground/bin/helm template liqo artifacts/chart --namespace liqo --kube-version 1.37.1 "$@" 2>&1
}

accepts() {
  local output
  output=$(render "$@") || { echo "the chart refuses $*:"; echo "${output}"; exit 1; }
}

refuses() {
  local sentence=$1 output
  shift
  if output=$(render "$@"); then
    echo "the chart accepts $*"
    exit 1
  fi
  grep -qF "${sentence}" <<<"${output}" || { echo "the chart refuses $*, but not with '${sentence}':"; echo "${output}"; exit 1; }
}

.playground/bin/helm lint artifacts/chart --quiet --strict --kube-version 1.37.1 --set clusterName=rome

accepts --set clusterName=rome
accepts --set clusterName=milan,server=https://192.0.2.1:6443,serverCA=pem --set-json 'clusterLabels={"topology.liqo.io/region":"north"}'
accepts --set clusterName=rome,apiserver.replicas=2,apiserver.etcd.servers[0]=https://etcd:2379,apiserver.etcd.existingSecret=etcd
accepts --set clusterName=rome,certificates.create=false,certificates.caBundle=pem

refuses 'clusterName is required'
refuses 'does not match pattern' --set clusterName=Rome
refuses 'does not match pattern' --set clusterName=milan,server=http://192.0.2.1:6443
refuses 'set apiserver.etcd.servers' --set clusterName=rome,apiserver.replicas=2
refuses 'certificates.caBundle is required' --set clusterName=rome,certificates.create=false
refuses 'additional properties' --set clusterName=rome,clusterNmae=rome
