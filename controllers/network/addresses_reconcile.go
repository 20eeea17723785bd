// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/podspec"
)

// reconcile has exactly those mappings of a pod that other providers call it by,
// those of the endpoints of a namespace that are no pods, or that of the API
// server for one provider.
func (a *podAddresses) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if key == readers {
		return 0, a.bindReaders(ctx)
	}
	existing, err := a.mappingsOf(key)
	if err != nil {
		return 0, err
	}
	if key.Namespace == "" {
		wanted, err := a.wantedHome(key)
		if err != nil {
			return 0, err
		}
		return a.bring(ctx, existing, wanted)
	}
	if key.Name == "" {
		wanted, complete, err := a.wantedEndpoints(ctx, key.Namespace)
		if err != nil || !complete {
			// That they are known is an event.
			return 0, err
		}
		return a.bring(ctx, existing, wanted)
	}
	homes := sets.New[string]()
	for _, mapping := range existing {
		homes.Insert(mapping.Labels[v1alpha1.LabelOrigin])
	}
	pod, on, complete, err := a.find(ctx, key, homes)
	if err != nil {
		return 0, err
	}
	if pod == nil && !complete {
		// That it is not there is no event.
		return time.Second, nil
	}
	wanted, err := a.wanted(pod, on)
	if err != nil {
		return 0, err
	}
	return a.bring(ctx, existing, wanted)
}

// mappingsOf are the mappings that were made for something.
func (a *podAddresses) mappingsOf(key cache.ObjectName) ([]*v1alpha1.AddressMapping, error) {
	found, err := a.mappings.ByIndex(indexOrigin, key.String())
	if err != nil {
		return nil, err
	}
	var all []*v1alpha1.AddressMapping
	for _, object := range found {
		all = append(all, object.(*v1alpha1.AddressMapping))
	}
	return all, nil
}

// find looks for a pod among those of the virtual nodes, and tells on which one
// it is; complete is whether all pods of some clusters are known, where it was
// before. Where two have the name, the younger one took it from the other.
func (a *podAddresses) find(ctx context.Context, key cache.ObjectName, homes sets.Set[string]) (pod *corev1.Pod, on *v1alpha1.VirtualNode, complete bool, err error) {
	nodes, err := a.virtualNodes.List(everything)
	if err != nil {
		return nil, nil, false, err
	}
	complete = true
	for _, node := range nodes {
		if !naming.IsPeerNamespace(node.Namespace) {
			continue
		}
		found, known, err := a.podOn(ctx, node, key)
		if err != nil {
			return nil, nil, false, fmt.Errorf("watch the pods of node %s: %w", node.Spec.NodeName, err)
		}
		complete = complete && (known || !homes.Has(node.Spec.ClusterID))
		if found != nil && (pod == nil || pod.CreationTimestamp.Before(&found.CreationTimestamp)) {
			pod, on = found, node
		}
	}
	return pod, on, complete, nil
}

// watchedPod is a pod of a virtual node, or nil, and whether all of its pods are
// known. One that goes is watched by who takes it apart, while it has any: until
// it is gone, what is not watched is not known.
func (c *AddressesConfig) watchedPod(ctx context.Context, node *v1alpha1.VirtualNode, key cache.ObjectName) (pod *corev1.Pod, complete bool, err error) {
	complete = c.Pods.Synced(node.Spec.NodeName)
	if !complete && node.DeletionTimestamp == nil {
		_, _, err = c.Pods.List(ctx, node.Spec.NodeName)
	}
	return c.Pods.Get(node.Spec.NodeName, key.Namespace, key.Name), complete, err
}

// wanted are the mappings of a pod: one for each of its addresses and each other
// provider that its namespace extends to, where there are tunnels to both.
func (a *podAddresses) wanted(pod *corev1.Pod, on *v1alpha1.VirtualNode) (map[string]*v1alpha1.AddressMapping, error) {
	if pod == nil || podspec.Finished(pod) {
		return nil, nil
	}
	home := naming.ForeignClusterOf(on.Namespace)
	tunnel, err := a.tunnel(home)
	if err != nil || tunnel == nil || tunnel.Spec.ClusterID != on.Spec.ClusterID {
		return nil, err
	}
	called := behind(tunnel, pod.Status.PodIPs)
	if len(called) == 0 {
		return nil, nil
	}
	all, err := a.maps.List(everything)
	if err != nil {
		return nil, err
	}
	wanted := map[string]*v1alpha1.AddressMapping{}
	for _, m := range all {
		reader := naming.ForeignClusterOf(m.Namespace)
		if !naming.IsPeerNamespace(m.Namespace) || reader == home || !extends(m, pod.Namespace) {
			continue
		}
		there, err := a.tunnel(reader)
		if err != nil {
			return nil, err
		}
		if there == nil || there.Spec.ClusterID == tunnel.Spec.ClusterID {
			continue
		}
		for _, address := range called {
			mapping := a.single(reader, there.Spec.ClusterID, tunnel.Spec.ClusterID, cache.MetaObjectToName(pod), address)
			wanted[mapping.Name] = mapping
		}
	}
	return wanted, nil
}

// wantedHome is the mapping by which a foreign cluster calls this one's API
// server: there is a tunnel, and a virtual node whose pods do.
func (a *podAddresses) wantedHome(key cache.ObjectName) (map[string]*v1alpha1.AddressMapping, error) {
	if !a.Home.IsValid() {
		return nil, nil
	}
	tunnel, err := a.tunnel(key.Name)
	if err != nil || tunnel == nil {
		return nil, err
	}
	nodes, err := a.virtualNodes.VirtualNodes(naming.PeerNamespace(key.Name)).List(everything)
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	mapping := a.single(key.Name, tunnel.Spec.ClusterID, a.ClusterID, key, a.Home)
	return map[string]*v1alpha1.AddressMapping{mapping.Name: mapping}, nil
}

// tunnel is what was agreed upon with a foreign cluster; nil if there is
// nothing, as where the tunnel carries the control plane alone.
func (a *podAddresses) tunnel(foreignCluster string) (*v1alpha1.TunnelEndpoint, error) {
	tunnel, err := a.endpoints.Get(foreignCluster)
	if apierrors.IsNotFound(err) || err == nil && (tunnel.DeletionTimestamp != nil || len(tunnel.Spec.Remote) == 0) {
		return nil, nil
	}
	return tunnel, err
}

// behind are those addresses that a tunnel leads to.
func behind(tunnel *v1alpha1.TunnelEndpoint, ips []corev1.PodIP) []netip.Addr {
	var found []netip.Addr
	for _, ip := range ips {
		address, err := netip.ParseAddr(ip.IP)
		if err != nil {
			continue
		}
		if slices.ContainsFunc(tunnel.Spec.Remote, func(agreed v1alpha1.CIDRMapping) bool {
			prefix, err := netip.ParsePrefix(agreed.Mapped)
			return err == nil && prefix.Contains(address)
		}) {
			found = append(found, address)
		}
	}
	return found
}

func extends(m *v1alpha1.NamespaceMap, namespace string) bool {
	return slices.ContainsFunc(m.Spec.Namespaces, func(mapping v1alpha1.NamespaceMapping) bool { return mapping.Name == namespace })
}

// single is the mapping of one address for one foreign cluster, of whatever it
// was made for, which is in the cluster origin.
func (a *podAddresses) single(reader, clusterID, origin string, of cache.ObjectName, address netip.Addr) *v1alpha1.AddressMapping {
	sum := sha256.Sum256([]byte(strings.Join([]string{clusterID, of.String(), address.String()}, " ")))
	mapping := &v1alpha1.AddressMapping{Spec: v1alpha1.AddressMappingSpec{
		ClusterID: clusterID, Pool: ExternalAddressPool, Address: address.String(),
	}}
	mapping.Namespace, mapping.Name = a.Namespace, reader+"-"+hex.EncodeToString(sum[:10])
	mapping.Labels = map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: reader, v1alpha1.LabelOrigin: origin,
	}
	switch {
	case of.Name == "":
		mapping.Annotations = map[string]string{v1alpha1.AnnotationOriginNamespace: of.Namespace}
	case of.Namespace != "":
		mapping.Annotations = map[string]string{v1alpha1.AnnotationOriginPod: of.String()}
	}
	return mapping
}

// outside tells whether a mapping is of a range that the pool had before, which no
// tunnel leads to now. It is made anew when it is gone. The pool is asked for if it
// seems so: the mapping may have been seen before the pool that it is of.
func (a *podAddresses) outside(ctx context.Context, mapping *v1alpha1.AddressMapping) (bool, error) {
	mapped, err := netip.ParseAddr(mapping.Spec.Mapped)
	if err != nil {
		return false, nil
	}
	without := func(pool *v1alpha1.AddressPool) bool {
		return !slices.ContainsFunc(pool.Spec.CIDRs, func(text string) bool {
			prefix, err := netip.ParsePrefix(text)
			return err == nil && prefix.Contains(mapped)
		})
	}
	if pool, err := a.pools.Get(ExternalAddressPool); err != nil || !without(pool) {
		return false, nil
	}
	pool, err := a.Federation.FederationV1alpha1().AddressPools().Get(ctx, ExternalAddressPool, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether AddressPool %s still has %s: %w", ExternalAddressPool, mapped, err)
	}
	return without(pool), nil
}

// bring makes the mappings those that are wanted. What one of them lacks does not
// keep the others from being made.
func (a *podAddresses) bring(ctx context.Context, existing []*v1alpha1.AddressMapping, wanted map[string]*v1alpha1.AddressMapping) (time.Duration, error) {
	client := a.Federation.FederationV1alpha1().AddressMappings(a.Namespace)
	there := map[string]bool{}
	for _, mapping := range existing {
		there[mapping.Name] = true
		if mapping.DeletionTimestamp != nil {
			continue
		}
		if want := wanted[mapping.Name]; want != nil {
			outside, err := a.outside(ctx, mapping)
			if err == nil && !outside {
				err = a.bound(ctx, mapping, want.Spec.Ports)
			}
			if err != nil {
				return 0, err
			}
			if !outside {
				continue
			}
		}
		if err := client.Delete(ctx, mapping.Name, exactly(mapping)); err != nil && !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("remove AddressMapping %s/%s: %w", a.Namespace, mapping.Name, err)
		}
	}
	var after time.Duration
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if there[name] {
			continue
		}
		again, err := a.take(ctx, wanted[name])
		if err != nil {
			return 0, err
		}
		after = sooner(after, again)
	}
	return after, nil
}

// bound has a mapping lead to these ports.
func (a *podAddresses) bound(ctx context.Context, mapping *v1alpha1.AddressMapping, ports []v1alpha1.AddressMappingPort) error {
	if slices.Equal(mapping.Spec.Ports, ports) {
		return nil
	}
	changed := mapping.DeepCopy()
	changed.Spec.Ports = ports
	if _, err := a.Federation.FederationV1alpha1().AddressMappings(a.Namespace).Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("change the ports of AddressMapping %s/%s: %w", a.Namespace, mapping.Name, err)
	}
	return nil
}
