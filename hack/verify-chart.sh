#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Lints the chart, renders it with valid values, and checks that invalid ones are refused with a
# message that names the value or the constraint.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

render() {
  .playground/bin/helm template liqo artifacts/chart --namespace liqo --kube-version 1.37.1 "$@" 2>&1
}

# accepts OPTIONS... fails unless the chart renders.
accepts() {
  local output
  output=$(render "$@") || { echo "the chart refuses $*:"; echo "${output}"; exit 1; }
}

# refuses MESSAGE OPTIONS... fails unless the chart refuses to render with the message.
refuses() {
  local message=$1 output
  shift
  if output=$(render "$@"); then
    echo "the chart accepts $*"
    exit 1
  fi
  grep -qF "${message}" <<<"${output}" || { echo "the chart refuses $* without the message '${message}':"; echo "${output}"; exit 1; }
}

# references EXPECTED OPTIONS... fails unless these are the references of images in the rendered chart, one a line.
references() {
  local expected=$1 output
  shift
  output=$(render "$@") || { echo "the chart refuses $*:"; echo "${output}"; exit 1; }
  diff <(echo "${expected}") <(grep -oE 'liqo\.io/federation-[a-z-]+:[^"'\'' ]+' <<<"${output}" | sort -u) ||
    { echo "the chart has other images (>) than expected (<) with $*"; exit 1; }
}

.playground/bin/helm lint artifacts/chart --quiet --strict --kube-version 1.37.1 --set clusterName=rome

accepts --set clusterName=rome
accepts --set clusterName=milan,server=https://192.0.2.1:6443,serverCA=pem --set-json 'clusterLabels={"topology.liqo.io/region":"north"}'
accepts --set clusterName=rome,consumerAPIServer=https://192.0.2.1:6443,policy.apiAccess=Consumer
accepts --set clusterName=rome,consumerAPIServer=https://10.96.0.1,consumerAPIServerThroughTunnels=true
accepts --set clusterName=rome,consumerAPIServer=https://10.96.0.1,consumerAPIServerThroughTunnels=true --set-json 'network.externalCIDRs=["10.70.0.0/16"]'
accepts --set clusterName=rome,policy.limits.cpu=16,policy.limits.memory=64Gi,policy.nodeSelector.pool=shared,policy.changePercent=10
accepts --set clusterName=rome --set-json 'policy.limits={"requests.storage":"500Gi","fast.storageclass.storage.k8s.io/requests.storage":"10Gi"}' --set-json 'policy.externalVolumes={"types":["nfs"],"csiDrivers":["secrets-store.csi.k8s.io"]}'
accepts --set clusterName=rome,policy.trust=SameOwner,policy.pods.maxGracePeriodSeconds=60,policy.pods.limits=Required,policy.maxObjectBytes=65536,policy.maxRemoteNamespaces=10 --set-json 'policy.remoteNamespaces=["team-a-*"]' --set-json 'policy.objects={"count/configmaps":500,"services.nodeports":10}' --set-json 'policy.externalNames=["*.example.com"]' --set-json 'policy.namespaceLabels=["field.cattle.io/projectId"]' --set-json 'policy.pods.tolerations=["nvidia.com/*"]' --set-json 'policy.pods.runtimeClasses=["gvisor"]' --set-json 'policy.pods.metadataKeys=["sidecar.istio.io/*"]'
accepts --set clusterName=rome,apiserver.replicas=2,apiserver.etcd.servers[0]=https://etcd:2379,apiserver.etcd.existingSecret=etcd
accepts --set clusterName=rome,certificates.create=false,certificates.caBundle=pem
accepts --set clusterName=rome,controllerManager.replicas=2,identitySigner.replicas=2
accepts --set clusterName=rome,certificates.certManager.issuerRef.name=federation,certificates.certManager.issuerRef.kind=Issuer
accepts --set clusterName=rome,logFormat=json,metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.labels.release=prometheus
accepts --set clusterName=rome,metrics.podMonitor.enabled=true,metrics.podMonitor.tokenSecret.name=prometheus
accepts --set clusterName=rome,apiserver.encryption.existingSecret=keys,apiserver.tracing.endpoint=collector:4317 --set-json 'apiserver.audit.rules=[{"level":"Metadata"}]'
accepts --set clusterName=rome,apiserver.restore=true,apiserver.snapshots.interval=0s

accepts --set clusterName=rome,networkPolicies.create=false
accepts --set clusterName=rome --set-json 'networkPolicies.from=["192.0.2.0/24","2001:db8::/32"]'

accepts --set clusterName=rome,networking=Flat --set-json 'policy.refusedEndpointCIDRs=["10.96.0.0/12","fd00:96::/112"]'
accepts --set clusterName=rome,server=https://rome.example.org:6443
accepts --set clusterName=rome,networking=Tunnel,network.enabled=true
accepts --set clusterName=rome,networking=Tunnel,network.enabled=true,network.reach=Offloaded
accepts --set clusterName=rome,networking=Tunnel,network.enabled=true --set-json 'network.keepCIDRs=["10.64.0.0/10","fd00:1::/48"]'
accepts --set clusterName=rome,networking=Tunnel,network.mtu=1420,network.endpoints[0]=rome.example.org:51820 --set-json 'network.podCIDRs=["10.244.0.0/16","fd00:244::/56"]'
accepts --set clusterName=rome,networking=Tunnel,network.enabled=true,network.gateway.nodeSelector.edge=yes,network.gateway.port=51821 --set-json 'network.podCIDRs=["10.244.0.0/16"]' --set-json 'network.externalCIDRs=["10.70.0.0/16"]' --set-json 'network.serviceCIDRs=["10.96.0.0/12"]'
accepts --set clusterName=rome,network.enabled=true,network.gateway.replicas=1 --set-json 'network.podCIDRs=["fd00:244::/56"]' --set-json 'network.externalCIDRs=["None"]'
network=clusterName=rome,network.enabled=true,network.gateway.service.enabled=true
accepts --set "${network}" --set-json 'network.podCIDRs=["10.244.0.0/16"]' --set-json 'network.gateway.service.annotations={"example.com/public":"true"}' --set network.gateway.service.loadBalancerClass=example.com/lb
accepts --set "${network},network.gateway.service.type=NodePort,network.gateway.service.nodePort=30820,network.gateway.service.externalTrafficPolicy=Cluster" --set-json 'network.podCIDRs=["10.244.0.0/16"]'

# Each program has an image. A digest is added to the reference of its program only.
tagged=() pinned=() digests=()
for program in apiserver controller-manager gateway mover route virtual-kubelet; do
  digest=sha256:$(sha256sum <<<"${program}" | cut -d' ' -f1)
  tagged+=("liqo.io/federation-${program}:v1") pinned+=("liqo.io/federation-${program}:v1@${digest}")
  digests+=("\"federation-${program}\":\"${digest}\"")
done
images=clusterName=rome,images.tag=v1,network.enabled=true
lines() { printf '%s\n' "$@"; }
references "$(lines "${tagged[@]}")" --set "${images}"
references "$(lines "${tagged[@]}")" --set "${images},images.digests=null"
references "$(lines "${pinned[@]}")" --set "${images}" --set-json "images.digests={$(IFS=,; echo "${digests[*]}")}"
references "$(lines "${pinned[0]}" "${tagged[@]:1}")" --set "${images}" --set-json "images.digests={${digests[0]}}"

widgets='{"group":"example.com","version":"v1","resource":"widgets"}'
accepts --set clusterName=rome --set-json "policy.reflectedKinds=[${widgets}]" --set-json "reflection.kinds=[${widgets}]"

refuses 'clusterName is required'
refuses 'does not match pattern' --set clusterName=rome,images.digests.federation-gateway=sha256:0123
refuses "at '/images/digests': value must be one of 'federation-apiserver'," --set clusterName=rome,images.digests.gateway=unknown
refuses 'does not match pattern' --set clusterName=Rome
refuses 'does not match pattern' --set clusterName=milan,server=http://192.0.2.1:6443
refuses 'does not match pattern' --set clusterName=rome,consumerAPIServer=https://192.0.2.1:6443/k8s
refuses 'set apiserver.etcd.servers' --set clusterName=rome,apiserver.replicas=2
refuses 'is for the embedded etcd' --set clusterName=rome,apiserver.restore=true,apiserver.etcd.servers[0]=https://etcd:2379
refuses 'does not match pattern' --set clusterName=rome,apiserver.tracing.endpoint=http://collector:4317
refuses 'does not match pattern' --set clusterName=rome,apiserver.snapshots.interval=often
refuses 'certificates.caBundle is required' --set clusterName=rome,certificates.create=false
refuses 'metrics.podMonitor.tokenSecret.name is required' --set clusterName=rome,metrics.podMonitor.enabled=true
refuses 'consumerAPIServerThroughTunnels needs consumerAPIServer' --set clusterName=rome,consumerAPIServerThroughTunnels=true
refuses 'consumerAPIServerThroughTunnels needs network.externalCIDRs' --set clusterName=rome,consumerAPIServer=https://10.96.0.1,consumerAPIServerThroughTunnels=true --set-json 'network.externalCIDRs=["None"]'
refuses 'does not match pattern' --set clusterName=rome --set-json 'network.podCIDRs=["10.244.0.0"]'
refuses 'does not match pattern' --set clusterName=rome --set-json 'network.endpoints=["rome.example.org"]'
refuses "'None', 'Flat', 'Tunnel'" --set clusterName=rome,networking=Round
refuses "'', 'Offloaded', 'All'" --set clusterName=rome,network.reach=Few
refuses 'does not match pattern' --set clusterName=rome --set-json 'network.keepCIDRs=["all"]'
refuses 'items at 0 and 1 are equal' --set clusterName=rome --set-json 'network.keepCIDRs=["10.0.0.0/8","10.0.0.0/8"]'
refuses 'maximum' --set clusterName=rome,network.gateway.port=70000
refuses "'LoadBalancer', 'NodePort'" --set clusterName=rome,network.gateway.service.type=ClusterIP
refuses 'network.gateway.service.loadBalancerClass is for type LoadBalancer' --set "${network},network.gateway.service.type=NodePort,network.gateway.service.loadBalancerClass=example.com/lb" --set-json 'network.podCIDRs=["10.244.0.0/16"]'
refuses 'must be one of' --set clusterName=rome,policy.trust=Friend
refuses 'does not match pattern' --set clusterName=rome --set-json 'policy.remoteNamespaces=["*a*"]'
refuses 'does not match pattern' --set clusterName=rome --set-json 'policy.objects={"configmaps":5}'
refuses 'minimum: got 100, want 4,096' --set clusterName=rome,policy.maxObjectBytes=100
refuses 'anyOf' --set clusterName=rome,policy.pods.maxGracePeriodSeconds=5
refuses "'', 'Consumer', 'Disabled'" --set clusterName=rome,policy.apiAccess=Home
refuses "'', 'Any', 'Required'" --set clusterName=rome,policy.pods.limits=Some
refuses 'does not match pattern' --set clusterName=rome --set-json 'policy.refusedEndpointCIDRs=["10.96.0.1"]'
for group in apps rbac.authorization.k8s.io multicluster.x-k8s.io federation.liqo.io; do
  refuses "'not' failed" --set clusterName=rome --set-json "policy.reflectedKinds=[${widgets/example.com/${group}}]"
done
refuses 'does not match pattern' --set clusterName=rome --set-json "policy.reflectedKinds=[${widgets/example.com/}]"
refuses 'does not match pattern' --set clusterName=rome --set-json "reflection.kinds=[${widgets/widgets/*}]"
refuses "additional properties 'clusterNmae'" --set clusterName=rome,clusterNmae=rome
refuses "at '/network': value must be one of 'enabled', 'endpoints'," --set clusterName=rome,network.podCIDR=10.244.0.0/16
refuses "additional properties 'limit'" --set clusterName=rome,controllerManager.resources.limit.cpu=1
refuses "additional properties 'operater'" --set clusterName=rome --set-json 'network.gateway.tolerations=[{"operater":"Exists"}]'
refuses "additional properties 'stages'" --set clusterName=rome --set-json 'apiserver.audit.rules=[{"level":"Metadata","stages":[]}]'
refuses 'does not match pattern' --set clusterName=rome --set-json 'networkPolicies.from=["everybody"]'
