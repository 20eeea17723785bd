// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// The ConfigMaps and kinds in which CNIs and distributions store pod ranges.
var (
	kubeadmConfig  = client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"}
	ciliumConfig   = client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "cilium-config"}
	flannelConfigs = []client.ObjectKey{
		{Namespace: "kube-flannel", Name: "kube-flannel-cfg"}, {Namespace: metav1.NamespaceSystem, Name: "kube-flannel-cfg"},
	}
	ipPools     = schema.GroupVersionKind{Group: "crd.projectcalico.org", Version: "v1", Kind: "IPPoolList"}
	ciliumNodes = schema.GroupVersionKind{Group: "cilium.io", Version: "v2", Kind: "CiliumNodeList"}
)

const (
	// maxPods is the maximum number of running pods whose addresses are read.
	maxPods = 500
	// podBits4 and podBits6 are the prefix lengths of the ranges that are derived from the address of a
	// running pod: all addresses in such a range are assumed to belong to pods.
	podBits4, podBits6 = 24, 64
)

// detect reads every source. A source that does not exist, or that RBAC does not allow to read, has no
// ranges. It fails if a source cannot be read for another reason, so that ranges do not change then.
func (r *Reconciler) detect(ctx context.Context, previous []v1alpha1.ClusterRange) (detected, error) {
	var d detected
	// The lists share their objects with the cache, so they must not be changed.
	shared := client.UnsafeDisableDeepCopy
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, shared); err != nil {
		return d, err
	}
	own := map[string]bool{}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if node.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode {
			continue
		}
		own[node.Name] = true
		d.add(v1alpha1.RangeOfPods, v1alpha1.SourceNode, node.Spec.PodCIDRs...)
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP {
				d.addAddress(v1alpha1.RangeOfNodes, v1alpha1.SourceNode, address.Address)
			}
		}
		if err := d.addK3s(node); err != nil {
			d.undecoded = append(d.undecoded, undecodedSource{v1alpha1.SourceK3s, err})
		}
	}
	var services networkingv1.ServiceCIDRList
	if err := r.Client.List(ctx, &services, shared); err != nil {
		return d, err
	}
	for _, service := range services.Items {
		d.add(v1alpha1.RangeOfServices, v1alpha1.SourceServiceCIDR, service.Spec.CIDRs...)
	}
	var servers discoveryv1.EndpointSliceList
	if err := r.servers.List(ctx, &servers, shared); err != nil {
		return d, err
	}
	for _, slice := range servers.Items {
		for _, endpoint := range slice.Endpoints {
			for _, address := range endpoint.Addresses {
				d.addAddress(v1alpha1.RangeReserved, v1alpha1.SourceAPIServer, address)
			}
		}
	}
	pool := &v1alpha1.AddressPool{}
	key := client.ObjectKey{Name: v1alpha1.ExternalAddressPool}
	if err := r.Client.Get(ctx, key, pool); client.IgnoreNotFound(err) != nil {
		return d, err
	}
	if pool.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy {
		d.add(v1alpha1.RangeExternal, v1alpha1.SourceAddressPool, pool.Spec.CIDRs...)
	}
	if err := errors.Join(
		r.detectKubeadm(ctx, &d), r.detectFlannel(ctx, &d), r.detectCilium(ctx, &d), r.detectCalico(ctx, &d),
	); err != nil {
		return d, err
	}
	if d.namesPods() || len(r.Values.PodCIDRs) > 0 {
		return d, nil
	}
	return d, r.detectPods(ctx, &d, own, previous)
}

// namesPods reports whether any source has pod ranges.
func (d *detected) namesPods() bool {
	for _, cidrs := range d.ranges[v1alpha1.RangeOfPods] {
		if len(cidrs) > 0 {
			return true
		}
	}
	return false
}

func (r *Reconciler) detectKubeadm(ctx context.Context, d *detected) error {
	config, err := r.configMap(ctx, kubeadmConfig)
	if err != nil || config == nil {
		return err
	}
	if err := d.addKubeadm(config); err != nil {
		d.undecoded = append(d.undecoded, undecodedSource{v1alpha1.SourceKubeadm, err})
	}
	return nil
}

func (r *Reconciler) detectFlannel(ctx context.Context, d *detected) error {
	for _, key := range flannelConfigs {
		config, err := r.configMap(ctx, key)
		if err != nil {
			return err
		}
		if config == nil {
			continue
		}
		if err := d.addFlannel(config); err != nil {
			d.undecoded = append(d.undecoded, undecodedSource{v1alpha1.SourceFlannel, err})
		}
	}
	return nil
}

func (r *Reconciler) detectCilium(ctx context.Context, d *detected) error {
	config, err := r.configMap(ctx, ciliumConfig)
	if err != nil || config == nil || !d.addCilium(config) {
		return err
	}
	nodes, err := r.list(ctx, ciliumNodes)
	d.addCiliumNodes(nodes)
	return err
}

func (r *Reconciler) detectCalico(ctx context.Context, d *detected) error {
	pools, err := r.list(ctx, ipPools)
	d.addCalico(pools)
	return err
}

// detectPods adds the ranges with prefix length podBits4 or podBits6 around the addresses of at most maxPods running
// pods on the nodes in own. It keeps such ranges of earlier reconciles, because pods that ended may start again.
func (r *Reconciler) detectPods(
	ctx context.Context, d *detected, own map[string]bool, previous []v1alpha1.ClusterRange,
) error {
	var pods corev1.PodList
	running := client.MatchingFields{"status.phase": string(corev1.PodRunning)}
	if err := r.Live.List(ctx, &pods, client.Limit(maxPods), running); err != nil {
		return fmt.Errorf("listing running pods for their addresses: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.HostNetwork || !own[pod.Spec.NodeName] {
			continue
		}
		for _, ip := range pod.Status.PodIPs {
			address, err := netip.ParseAddr(ip.IP)
			if err != nil {
				continue
			}
			bits := podBits4
			if address.Is6() {
				bits = podBits6
			}
			if prefix, err := address.Prefix(bits); err == nil {
				d.add(v1alpha1.RangeOfPods, v1alpha1.SourcePod, prefix.String())
			}
		}
	}
	for _, before := range previous {
		if before.Use == v1alpha1.RangeOfPods && before.Source == v1alpha1.SourcePod {
			d.add(v1alpha1.RangeOfPods, v1alpha1.SourcePod, before.CIDR)
		}
	}
	return nil
}

// configMap returns a ConfigMap; nil if it does not exist, or RBAC does not allow to read it.
func (r *Reconciler) configMap(ctx context.Context, key client.ObjectKey) (*corev1.ConfigMap, error) {
	var config corev1.ConfigMap
	err := r.Live.Get(ctx, key, &config)
	switch {
	case isAbsent(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %s for ranges of pods: %w", key, err)
	}
	return &config, nil
}

// list returns all objects of a CNI's kind; none if the kind is not served, or RBAC does not allow to read
// it.
func (r *Reconciler) list(ctx context.Context, kind schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	var all unstructured.UnstructuredList
	all.SetGroupVersionKind(kind)
	err := r.Live.List(ctx, &all)
	switch {
	case isAbsent(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s for ranges of pods: %w", kind.Kind, err)
	}
	return all.Items, nil
}

func isAbsent(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err)
}
