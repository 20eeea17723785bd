// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

const installation = "liqo"

// world is a cluster with the objects from which ranges are detected.
type world struct {
	*Reconciler
	t    *testing.T
	kube *kittest.Cluster
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	kube := kittest.New(t, objects...)
	return &world{t: t, kube: kube, Reconciler: &Reconciler{
		Client: kube.Controller, Live: kube, servers: kube, installation: kube, Events: kube.Events, Clock: kube.Clock,
		Cluster: Cluster{ID: "11111111-1111-4111-8111-111111111111", Name: "rome", Namespace: installation},
	}}
}

// pass reconciles until nothing changes, and returns the status. The last reconcile must be followed by another one,
// which reads the sources that are not watched again.
func (w *world) pass() v1alpha1.ClusterInfoStatus {
	w.t.Helper()
	for range 5 {
		if after, writes := w.kube.Pass(w.Reconciler, request); len(writes) == 0 {
			if after != rereadInterval {
				w.t.Errorf("the sources are read again after %s, want %s", after, rereadInterval)
			}
			return kittest.Read(w.kube, "", v1alpha1.ClusterInfoName, &v1alpha1.ClusterInfo{}).Status
		}
	}
	w.t.Fatal("each pass writes")
	return v1alpha1.ClusterInfoStatus{}
}

// of returns the ranges of one use as text.
func of(status v1alpha1.ClusterInfoStatus, use v1alpha1.ClusterRangeUse) []string {
	var texts []string
	for _, r := range status.Ranges {
		if r.Use == use {
			texts = append(texts, fmt.Sprintf("%s %s", r.CIDR, r.Source))
		}
	}
	return texts
}

func reason(status v1alpha1.ClusterInfoStatus, kind string) string {
	if condition := meta.FindStatusCondition(status.Conditions, kind); condition != nil {
		return fmt.Sprintf("%s %s", condition.Status, condition.Reason)
	}
	return ""
}

func node(name string, pods ...string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: pods}}
}

func k3sServer(args string, pods ...string) *corev1.Node {
	n := node("k3s-server", pods...)
	n.Annotations = map[string]string{"k3s.io/node-args": args}
	return n
}

func configMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
}

// kubeadm is ConfigMap kubeadm-config as kubeadm init writes it.
func kubeadm(pods, services string) *corev1.ConfigMap {
	return configMap("kube-system", "kubeadm-config", map[string]string{
		"ClusterConfiguration": fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
caCertificateValidityPeriod: 87600h0m0s
clusterName: kubernetes
kind: ClusterConfiguration
kubernetesVersion: v1.34.2
networking:
  dnsDomain: cluster.local
  podSubnet: %s
  serviceSubnet: %s
`, pods, services)})
}

func flannel(namespace, conf string) *corev1.ConfigMap {
	return configMap(namespace, "kube-flannel-cfg",
		map[string]string{"cni-conf.json": `{"name":"cbr0"}`, "net-conf.json": conf})
}

func cilium(data map[string]string) *corev1.ConfigMap {
	return configMap("kube-system", "cilium-config", data)
}

func object(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

func ipPool(name, cidr string, more ...any) *unstructured.Unstructured {
	spec := map[string]any{"cidr": cidr, "ipipMode": "Always", "natOutgoing": true, "blockSize": int64(26),
		"nodeSelector": "all()"}
	for i := 0; i < len(more); i += 2 {
		spec[more[i].(string)] = more[i+1]
	}
	return object("crd.projectcalico.org/v1", "IPPool", name, spec)
}

func ciliumNode(name string, ipam map[string]any) *unstructured.Unstructured {
	return object("cilium.io/v2", "CiliumNode", name, map[string]any{"ipam": ipam})
}

func serviceCIDR(cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

func runningPod(name, nodeName, ip string, hostNetwork bool) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: nodeName, HostNetwork: hostNetwork},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: ip}}},
	}
}

func TestRangesOfEachDistributionAreDetected(t *testing.T) {
	for name, test := range map[string]struct {
		objects        []client.Object
		pods, services []string
	}{
		"kubeadm, and a CNI that uses the podCIDRs of nodes": {
			[]client.Object{node("a", "10.244.0.0/24"), node("b", "10.244.1.0/24"), kubeadm("10.244.0.0/16", "10.96.0.0/12"),
				serviceCIDR("10.96.0.0/12")},
			[]string{"10.244.0.0/16 Kubeadm"}, []string{"10.96.0.0/12 ServiceCIDR"},
		},
		"kubeadm with two families": {
			[]client.Object{node("a", "10.244.0.0/24", "fd00:10:244::/64"),
				kubeadm("10.244.0.0/16,fd00:10:244::/56", "10.96.0.0/16,fd00:10:96::/112")},
			[]string{"10.244.0.0/16 Kubeadm", "fd00:10:244::/56 Kubeadm"},
			[]string{"10.96.0.0/16 Kubeadm", "fd00:10:96::/112 Kubeadm"},
		},
		"k3s without flags": {
			[]client.Object{k3sServer(`["server","--write-kubeconfig-mode","0644"]`, "10.42.0.0/24"),
				serviceCIDR("10.43.0.0/16")},
			[]string{"10.42.0.0/16 K3s"}, []string{"10.43.0.0/16 ServiceCIDR"},
		},
		"k3s with flags": {
			[]client.Object{k3sServer(`["server","--cluster-cidr","10.50.0.0/16,fd00:50::/56","--service-cidr","10.51.0.0/16"]`,
				"10.50.0.0/24", "fd00:50::/64")},
			[]string{"10.50.0.0/16 K3s", "fd00:50::/56 K3s"}, []string{"10.51.0.0/16 K3s"},
		},
		"k3s agents name nothing": {
			[]client.Object{k3sServer(`["agent"]`, "10.42.1.0/24")}, []string{"10.42.1.0/24 Node"}, nil,
		},
		"Flannel": {
			[]client.Object{node("a", "10.244.0.0/24"),
				flannel("kube-flannel", `{"Network":"10.244.0.0/16","EnableNFTables":false,"Backend":{"Type":"vxlan"}}`)},
			[]string{"10.244.0.0/16 Flannel"}, nil,
		},
		"Flannel with two families, where older versions were installed": {
			[]client.Object{flannel("kube-system",
				`{"Network":"10.244.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:244::/56","Backend":{"Type":"vxlan"}}`)},
			[]string{"10.244.0.0/16 Flannel", "fd00:244::/56 Flannel"}, nil,
		},
		"Calico with several pools": {
			[]client.Object{
				ipPool("default-ipv4-ippool", "192.168.0.0/16"), ipPool("old", "10.48.0.0/16", "disabled", true),
				ipPool("default-ipv6-ippool", "fd00:192::/64"),
				ipPool("load-balancers", "10.90.0.0/24", "allowedUses", []any{"LoadBalancer"}),
				kubeadm("192.168.0.0/16", "10.96.0.0/12"),
			},
			[]string{"10.48.0.0/16 Calico", "192.168.0.0/16 Calico", "fd00:192::/64 Calico"}, []string{"10.96.0.0/12 Kubeadm"},
		},
		"Cilium with the pool of the cluster": {
			[]client.Object{cilium(map[string]string{
				"ipam": "cluster-pool", "enable-ipv4": "true", "enable-ipv6": "false", "cluster-pool-ipv4-cidr": "10.0.0.0/16 10.1.0.0/16", "cluster-pool-ipv4-mask-size": "24",
			})},
			[]string{"10.0.0.0/16 Cilium", "10.1.0.0/16 Cilium"}, nil,
		},
		"Cilium with the podCIDRs of nodes": {
			[]client.Object{node("a", "10.244.0.0/24"),
				cilium(map[string]string{"ipam": "kubernetes", "cluster-pool-ipv4-cidr": "10.0.0.0/8"})},
			[]string{"10.244.0.0/24 Node"}, nil,
		},
		"Cilium with several pools": {
			[]client.Object{
				cilium(map[string]string{"ipam": "multi-pool"}),
				ciliumNode("a", map[string]any{"pools": map[string]any{"allocated": []any{
					map[string]any{"pool": "default", "cidrs": []any{"10.10.0.0/27", "10.20.0.0/27"}}}}}),
				ciliumNode("b", map[string]any{"podCIDRs": []any{"10.30.0.0/24"}}),
			},
			[]string{"10.10.0.0/27 Cilium", "10.20.0.0/27 Cilium", "10.30.0.0/24 Cilium"}, nil,
		},
		"nodes with podCIDRs alone": {
			[]client.Object{node("b", "10.244.1.0/24"), node("a", "10.244.0.0/24")},
			[]string{"10.244.0.0/24 Node", "10.244.1.0/24 Node"}, nil,
		},
		"nodes without podCIDRs, and running pods": {
			[]client.Object{
				node("a"), runningPod("web", "a", "100.64.7.9", false), runningPod("db", "a", "100.64.7.200", false),
				runningPod("proxy", "a", "192.0.2.1", true),
				runningPod("offloaded", "liqo-milan", "10.99.0.1", false),
			},
			[]string{"100.64.7.0/24 Pod"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := newWorld(t, test.objects...).pass()
			if diff := cmp.Diff(test.pods, of(status, v1alpha1.RangeOfPods)); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.services, of(status, v1alpha1.RangeOfServices)); diff != "" {
				t.Errorf("services (-want +got):\n%s", diff)
			}
			if got := reason(status, v1alpha1.ConditionRangesKnown); got != "True Detected" {
				t.Errorf("RangesKnown is %s", got)
			}
			for _, text := range slices.Concat(test.pods, test.services) {
				cidr, source, _ := strings.Cut(text, " ")
				said := message(status, v1alpha1.ConditionRangesKnown)
				if !strings.Contains(said, cidr) || !strings.Contains(said, source) {
					t.Errorf("RangesKnown has message %q without %s", said, text)
				}
			}
			if got := reason(status, v1alpha1.ConditionRangesConsistent); got != "True SourcesAgree" {
				t.Errorf("RangesConsistent is %s: %+v", got, status.Conditions)
			}
		})
	}
}

func TestAddressesOfNodesAndAPIServersAreRanges(t *testing.T) {
	n := node("a", "10.244.0.0/24")
	for kind, address := range map[corev1.NodeAddressType]string{
		corev1.NodeInternalIP: "192.168.1.1", corev1.NodeExternalIP: "198.51.100.1", corev1.NodeHostName: "a",
	} {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: kind, Address: address})
	}
	n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "127.0.0.1"})
	virtual := node("liqo-milan", "10.99.0.0/24")
	virtual.Labels = map[string]string{v1alpha1.LabelType: v1alpha1.TypeVirtualNode}
	virtual.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "172.31.0.1"}}
	servers := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.168.1.1"}}, {Addresses: []string{"192.168.7.53"}}}}
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExternalAddressPool,
		Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}},
		Spec: v1alpha1.AddressPoolSpec{CIDRs: []string{"10.255.192.0/18"}}}
	w := newWorld(t, n, virtual, servers, pool)
	w.Values.ReservedCIDRs = []string{"172.20.0.0/16"}
	status := w.pass()
	for use, want := range map[v1alpha1.ClusterRangeUse][]string{
		v1alpha1.RangeOfPods:   {"10.244.0.0/24 Node"},
		v1alpha1.RangeOfNodes:  {"192.168.1.1/32 Node", "198.51.100.1/32 Node"},
		v1alpha1.RangeExternal: {"10.255.192.0/18 AddressPool"},
		v1alpha1.RangeReserved: {"172.20.0.0/16 Value", "192.168.7.53/32 APIServer"},
	} {
		if diff := cmp.Diff(want, of(status, use)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", use, diff)
		}
	}
	if status.ClusterName != "rome" || !slices.Contains(status.Features, "Tunnel") || status.ClusterID != w.Cluster.ID {
		t.Errorf("the status is %+v", status)
	}
}

func TestClusterInfoHasThePublishedKeyOfTheGateway(t *testing.T) {
	valid := base64.StdEncoding.EncodeToString(make([]byte, publicKeySize))
	published := func(key string) client.Object {
		return configMap(installation, v1alpha1.WireGuardConfigMap, map[string]string{v1alpha1.WireGuardPublicKey: key})
	}
	for name, test := range map[string]struct {
		objects []client.Object
		want    *v1alpha1.PeeringGateway
	}{
		"published": {[]client.Object{published(valid)},
			&v1alpha1.PeeringGateway{PublicKey: valid, Endpoints: []string{"gateway.example.org:51820"}}},
		"not published": {nil, nil},
		"invalid":       {[]client.Object{published(valid[:8])}, nil},
		"another ConfigMap": {[]client.Object{configMap(installation, "another",
			map[string]string{v1alpha1.WireGuardPublicKey: valid})}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.objects...)
			w.Cluster.Endpoints = []string{"gateway.example.org:51820"}
			if diff := cmp.Diff(test.want, w.pass().Gateway); diff != "" {
				t.Errorf("gateway (-want +got):\n%s", diff)
			}
		})
	}
}
