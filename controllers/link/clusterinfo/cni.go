// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// addCalico adds spec.cidr of the IPPools of Calico from which pods get addresses. Disabled IPPools count,
// too, because pods keep their addresses (projectcalico/calico,
// api/pkg/apis/projectcalico/v3/ippool.go, IPPoolSpec).
func (d *detected) addCalico(pools []unstructured.Unstructured) {
	for _, pool := range pools {
		uses, _, _ := unstructured.NestedStringSlice(pool.Object, "spec", "allowedUses")
		if len(uses) > 0 && !slices.Contains(uses, "Workload") {
			continue
		}
		cidr, _, _ := unstructured.NestedString(pool.Object, "spec", "cidr")
		d.add(v1alpha1.RangeOfPods, v1alpha1.SourceCalico, cidr)
	}
}

// addFlannel adds the ranges of ConfigMap kube-flannel-cfg: Network and IPv6Network of
// net-conf.json (flannel-io/flannel, Documentation/kube-flannel.yml and configuration.md).
func (d *detected) addFlannel(config *corev1.ConfigMap) error {
	var network struct {
		Network     string
		IPv6Network string
		EnableIPv4  *bool
		EnableIPv6  bool
	}
	if err := json.Unmarshal([]byte(config.Data["net-conf.json"]), &network); err != nil {
		return fmt.Errorf("parsing net-conf.json of ConfigMap %s/%s: %w", config.Namespace, config.Name, err)
	}
	if network.EnableIPv4 == nil || *network.EnableIPv4 {
		d.add(v1alpha1.RangeOfPods, v1alpha1.SourceFlannel, network.Network)
	}
	if network.EnableIPv6 {
		d.add(v1alpha1.RangeOfPods, v1alpha1.SourceFlannel, network.IPv6Network)
	}
	return nil
}

// addCilium adds the cluster pool ranges in ConfigMap cilium-config, which are separated by spaces (cilium/cilium,
// install/kubernetes/cilium/templates/cilium-configmap.yaml, cluster-pool-ipv4-cidr). It reports whether the ranges
// are in CiliumNodes instead. They are, unless the IPAM mode is cluster-pool, kubernetes or not set; kubernetes uses
// the podCIDRs of nodes.
func (d *detected) addCilium(config *corev1.ConfigMap) (inNodes bool) {
	switch config.Data["ipam"] {
	case "", "kubernetes":
		return false
	case "cluster-pool", "cluster-pool-v2beta":
		pools := map[string]string{"enable-ipv4": "cluster-pool-ipv4-cidr", "enable-ipv6": "cluster-pool-ipv6-cidr"}
		for enabled, cidrs := range pools {
			if config.Data[enabled] != "false" {
				d.add(v1alpha1.RangeOfPods, v1alpha1.SourceCilium, config.Data[cidrs])
			}
		}
		return false
	}
	return true
}

// addCiliumNodes adds the ranges in spec.ipam.podCIDRs and, for multi-pool IPAM, in
// spec.ipam.pools.allocated of CiliumNodes (cilium/cilium, pkg/ipam/types/types.go, IPAMSpec).
func (d *detected) addCiliumNodes(nodes []unstructured.Unstructured) {
	for _, node := range nodes {
		cidrs, _, _ := unstructured.NestedStringSlice(node.Object, "spec", "ipam", "podCIDRs")
		d.add(v1alpha1.RangeOfPods, v1alpha1.SourceCilium, cidrs...)
		pools, _, _ := unstructured.NestedSlice(node.Object, "spec", "ipam", "pools", "allocated")
		for _, pool := range pools {
			if fields, ok := pool.(map[string]any); ok {
				cidrs, _, _ := unstructured.NestedStringSlice(fields, "cidrs")
				d.add(v1alpha1.RangeOfPods, v1alpha1.SourceCilium, cidrs...)
			}
		}
	}
}
