// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// apiVersion is the version of the kinds of the Multi-Cluster Services API.
var apiVersion = mcsv1alpha1.GroupVersion.String()

// locator locates endpoints.
type locator interface {
	// clusterOf returns the cluster of an endpoint; empty if it cannot be reached.
	clusterOf(slice *discoveryv1.EndpointSlice, endpoint *discoveryv1.Endpoint) string
}

// slicesFor returns the EndpointSlices of a ServiceImport: one for each EndpointSlice of its Service and
// each cluster, with the reachable endpoints. A label makes kube-proxy ignore them, because it uses the
// EndpointSlices of the Service.
func slicesFor(
	imported *mcsv1alpha1.ServiceImport,
	of []*discoveryv1.EndpointSlice,
	locator locator,
) []*discoveryv1.EndpointSlice {
	var all []*discoveryv1.EndpointSlice
	for _, slice := range of {
		if slice.AddressType != discoveryv1.AddressTypeIPv4 && slice.AddressType != discoveryv1.AddressTypeIPv6 ||
			!slice.DeletionTimestamp.IsZero() {
			continue
		}
		from := slice.DeepCopy()
		byCluster := map[string]*discoveryv1.EndpointSlice{}
		for _, endpoint := range from.Endpoints {
			cluster := locator.clusterOf(slice, &endpoint)
			if cluster == "" {
				continue
			}
			to := byCluster[cluster]
			if to == nil {
				to = &discoveryv1.EndpointSlice{
					ObjectMeta:  sliceMeta(imported, slice, cluster),
					AddressType: from.AddressType,
					Ports:       from.Ports,
				}
				byCluster[cluster] = to
				all = append(all, to)
			}
			// The topology hints apply only to the set of endpoints of the Service.
			endpoint.Hints = nil
			to.Endpoints = append(to.Endpoints, endpoint)
		}
	}
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func sliceMeta(
	imported *mcsv1alpha1.ServiceImport,
	slice *discoveryv1.EndpointSlice,
	cluster string,
) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: imported.Namespace, Name: sliceName(imported.Name, slice.Name, cluster),
		Labels: map[string]string{
			mcsv1alpha1.LabelServiceName:   imported.Name,
			mcsv1alpha1.LabelSourceCluster: cluster,
			discoveryv1.LabelManagedBy:     v1alpha1.ManagedBy,
			// kube-proxy does not watch EndpointSlices with this label.
			corev1.IsHeadlessService: "",
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: apiVersion, Kind: mcsv1alpha1.ServiceImportKindName, Name: imported.Name, UID: imported.UID,
		}},
	}
}

// sliceName returns the name of an EndpointSlice of a ServiceImport: the name of its Service, and a hash of the names
// of the Service's EndpointSlice and of the cluster, so that names of any length remain distinct.
func sliceName(service, slice, cluster string) string {
	sum := sha256.Sum256([]byte(slice + "/" + cluster))
	return service + "-imported-" + hex.EncodeToString(sum[:8])
}

// isImported reports whether an EndpointSlice was created for the ServiceImport with a name, even if the
// ServiceImport does not exist any more.
func isImported(slice *discoveryv1.EndpointSlice, name string) bool {
	return slice.Labels[discoveryv1.LabelManagedBy] == v1alpha1.ManagedBy &&
		slices.ContainsFunc(slice.OwnerReferences, func(owner metav1.OwnerReference) bool {
			return owner.Kind == mcsv1alpha1.ServiceImportKindName && owner.APIVersion == apiVersion && owner.Name == name
		})
}
