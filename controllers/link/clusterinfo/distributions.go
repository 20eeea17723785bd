// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"encoding/json"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
)

// addKubeadm adds the ranges of ConfigMap kubeadm-config: networking.podSubnet and networking.serviceSubnet of
// its ClusterConfiguration, which separate two IP families by a comma (kubernetes/kubernetes,
// cmd/kubeadm/app/apis/kubeadm/v1beta4/types.go, Networking).
func (d *detected) addKubeadm(config *corev1.ConfigMap) error {
	var cluster struct {
		Networking struct {
			PodSubnet     string `json:"podSubnet"`
			ServiceSubnet string `json:"serviceSubnet"`
		} `json:"networking"`
	}
	if err := yaml.Unmarshal([]byte(config.Data["ClusterConfiguration"]), &cluster); err != nil {
		return fmt.Errorf("parsing the ClusterConfiguration of ConfigMap %s/%s: %w", config.Namespace, config.Name, err)
	}
	d.add(v1alpha1.RangeOfPods, v1alpha1.SourceKubeadm, cluster.Networking.PodSubnet)
	d.add(v1alpha1.RangeOfServices, v1alpha1.SourceKubeadm, cluster.Networking.ServiceSubnet)
	return nil
}

// argsAnnotations are the annotations of nodes with the arguments of k3s and RKE2, including arguments in
// configuration files. The value is a JSON list in which a flag and its value are two elements
// (k3s-io/k3s, pkg/nodeconfig/nodeconfig.go, getNodeArgs).
var argsAnnotations = []string{"k3s.io/node-args", "rke2.io/node-args"}

// The default ranges of k3s and RKE2 (k3s-io/k3s, pkg/cli/cmds/server.go, cluster-cidr and service-cidr).
var (
	k3sPods     = netip.MustParsePrefix("10.42.0.0/16")
	k3sServices = netip.MustParsePrefix("10.43.0.0/16")
)

// addK3s adds the ranges in the arguments of a server node of k3s or RKE2. Without such arguments it adds
// the default ranges, if the podCIDRs of the node are in them.
func (d *detected) addK3s(node *corev1.Node) error {
	for _, annotation := range argsAnnotations {
		text, ok := node.Annotations[annotation]
		if !ok {
			continue
		}
		var args []string
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			return fmt.Errorf("parsing annotation %s of Node %s: %w", annotation, node.Name, err)
		}
		if len(args) == 0 || args[0] != "server" {
			continue
		}
		pods, services := valuesOf(args, "--cluster-cidr"), valuesOf(args, "--service-cidr")
		if len(pods) == 0 && usesDefault(node) {
			pods = []string{k3sPods.String()}
			if len(services) == 0 {
				services = []string{k3sServices.String()}
			}
		}
		d.add(v1alpha1.RangeOfPods, v1alpha1.SourceK3s, pods...)
		d.add(v1alpha1.RangeOfServices, v1alpha1.SourceK3s, services...)
	}
	return nil
}

// valuesOf returns the values of a flag, which may be given several times.
func valuesOf(args []string, flag string) []string {
	var values []string
	for i := range len(args) - 1 {
		if args[i] == flag {
			values = append(values, args[i+1])
		}
	}
	return values
}

// usesDefault reports whether a node has podCIDRs, and those of IPv4 are in the default range of k3s.
func usesDefault(node *corev1.Node) bool {
	for _, text := range node.Spec.PodCIDRs {
		cidr, err := netip.ParsePrefix(text)
		if err != nil || cidr.Addr().Is4() && !netmap.Covers([]netip.Prefix{k3sPods}, cidr) {
			return false
		}
	}
	return len(node.Spec.PodCIDRs) > 0
}
