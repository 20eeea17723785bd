// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rest defines all routes of the federation API.
package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
	"liqo.io/federation/registry/federation/addressmapping"
	"liqo.io/federation/registry/federation/foreigncluster"
	"liqo.io/federation/registry/federation/identityrequest"
	"liqo.io/federation/registry/federation/namespaceoffloading"
	"liqo.io/federation/registry/federation/peeringtoken"
	"liqo.io/federation/registry/federation/placementreview"
	"liqo.io/federation/registry/federation/reservation/addressrange"
	"liqo.io/federation/registry/federation/reservation/ledger"
	"liqo.io/federation/registry/federation/reservation/podquota"
	"liqo.io/federation/registry/federation/reservation/storagequota"
	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/resourcerequest"
	"liqo.io/federation/registry/federation/shadowpod"
	"liqo.io/federation/registry/federation/shadowvolumeclaim"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/registry/federation/subresource/plan"
	"liqo.io/federation/registry/federation/virtualvolume"
	"liqo.io/federation/registry/federation/volumestats"
)

// StorageProvider has the dependencies of the resources.
type StorageProvider struct {
	// Scheme has every version of the federation API.
	Scheme *runtime.Scheme
	// Codecs encode and decode the objects of Scheme.
	Codecs serializer.CodecFactory
	// RESTOptionsGetter has the storage of each resource.
	RESTOptionsGetter generic.RESTOptionsGetter
	// Client is a client of this cluster's Kubernetes API, with the identity of the server.
	Client kubernetes.Interface
	// Kubelets is the client for the kubelets of this cluster; see volumestats.Client.
	Kubelets *http.Client
	// Namespaces lists the namespaces of this cluster from a cache.
	Namespaces corelisters.NamespaceLister
	// Federation is a client of this server, and FederationInformers has the informers of
	// its objects. The caller starts them.
	Federation          versioned.Interface
	FederationInformers externalversions.SharedInformerFactory
	// Alone means that no other server writes to the same etcd.
	Alone bool

	// Namespace is the installation namespace, which has the Secrets of invitations.
	Namespace string
	// InvitationNamespace is the namespace of the service accounts of invitations.
	InvitationNamespace string
	// ClusterName is the name of this cluster for its peers.
	ClusterName string
	// ClusterID is the UID of this cluster's namespace kube-system.
	ClusterID string
	// AdvertisedServer is the https URL of this cluster's Kubernetes API that
	// invitations carry. Empty means that this cluster is no provider.
	AdvertisedServer string
	// AdvertisedCA is the PEM encoded bundle that invitations carry, which
	// the certificate of AdvertisedServer is verified with. Empty means the
	// consumer's system bundle.
	AdvertisedCA []byte
	// OwnCA is the PEM encoded bundle that the certificate of the API server is
	// verified with within this cluster.
	OwnCA []byte
}

// Background runs while the group is served.
type Background struct {
	quotas    *podquota.Quotas
	pods      *shadowpod.REST
	storage   *storagequota.Quotas
	claims    *shadowvolumeclaim.REST
	addresses *addressrange.Addresses
	mappings  ledger.Source
	pools     rest.Lister
	// poolStatus is the store of the status of pools.
	poolStatus *store.StatusREST
}

// Run runs the ledgers until the context ends.
func (b *Background) Run(ctx context.Context) {
	var group wait.Group
	group.StartWithContext(ctx, func(ctx context.Context) { b.quotas.Run(ctx, b.pods) })
	group.StartWithContext(ctx, func(ctx context.Context) { b.pods.Tend(ctx) })
	group.StartWithContext(ctx, func(ctx context.Context) { b.storage.Run(ctx, b.claims) })
	group.StartWithContext(ctx, func(ctx context.Context) { b.claims.Tend(ctx) })
	group.StartWithContext(ctx, func(ctx context.Context) { b.addresses.Run(ctx, b.mappings) })
	group.StartWithContext(ctx, func(ctx context.Context) { b.addresses.Report(ctx, b.pools, b.poolStatus) })
	group.Wait()
}

// Ready returns when quota and addresses can be reserved.
func (b *Background) Ready(ctx context.Context) error {
	return errors.Join(b.quotas.WaitForObjects(ctx), b.storage.WaitForObjects(ctx), b.addresses.WaitForObjects(ctx))
}

// Close closes the ledgers.
func (b *Background) Close() {
	b.quotas.Close()
	b.storage.Close()
	b.addresses.Close()
}

// APIGroupInfo returns every resource and subresource of the group. An error names the store
// that could not be created.
func (p StorageProvider) APIGroupInfo() (genericapiserver.APIGroupInfo, *Background, error) {
	quotas, err := podquota.Open(p.RESTOptionsGetter, p.Alone)
	if err != nil {
		return genericapiserver.APIGroupInfo{}, nil, err
	}
	storage, err := storagequota.Open(p.RESTOptionsGetter, p.Alone)
	if err != nil {
		quotas.Close()
		return genericapiserver.APIGroupInfo{}, nil, err
	}
	addresses, err := addressrange.Open(p.RESTOptionsGetter, p.Alone)
	if err != nil {
		quotas.Close()
		storage.Close()
		return genericapiserver.APIGroupInfo{}, nil, err
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(federation.GroupName, p.Scheme, metav1.ParameterCodec, p.Codecs)
	group.NegotiatedSerializer = onlyJSON{group.NegotiatedSerializer}
	resources, err := p.v1alpha1(quotas, storage, addresses)
	if err != nil {
		quotas.Close()
		storage.Close()
		addresses.Close()
		err = fmt.Errorf("creating the storage of %s: %w", v1alpha1.SchemeGroupVersion, err)
		return genericapiserver.APIGroupInfo{}, nil, err
	}
	group.VersionedResourcesStorageMap[v1alpha1.SchemeGroupVersion.Version] = resources
	return group, &Background{
		quotas: quotas, pods: resources["shadowpods"].(*shadowpod.REST),
		storage: storage, claims: resources["shadowvolumeclaims"].(*shadowvolumeclaim.REST),
		addresses: addresses, mappings: resources["addressmappings"].(*addressmapping.REST),
		pools: resources["addresspools"].(*store.REST), poolStatus: resources["addresspools/status"].(*store.StatusREST),
	}, nil
}

// v1alpha1 returns the routes: one line for each resource with its status, and one for each
// subresource.
func (p StorageProvider) v1alpha1(
	quotas *podquota.Quotas, storage *storagequota.Quotas, addresses *addressrange.Addresses,
) (map[string]rest.Storage, error) {
	table := &routes{provider: p, storages: map[string]rest.Storage{}}
	volumes := stored(table, "virtualvolumes", virtualvolume.New)
	clusters := stored(table, "foreignclusters", foreigncluster.Kind(plan.Reader{Volumes: volumes}).Storage)
	tokens := stored(table, "peeringtokens", peeringtoken.Kind.Storage)
	identities := stored(table, "identityrequests", identityrequest.New(p.InvitationNamespace))
	requests := stored(table, "resourcerequests", resourcerequest.Kind.Storage)
	stored(table, "resourceoffers", resource.ResourceOffers.Storage)
	virtualNodes := stored(table, "virtualnodes", resource.VirtualNodes.Storage)
	core := p.Client.CoreV1()
	plans := plan.Reader{
		Clusters: clusters, VirtualNodes: virtualNodes, Volumes: volumes, Kube: p.Client,
		ClusterName: p.ClusterName, ClusterID: p.ClusterID,
	}
	offloadings := stored(table, "namespaceoffloadings", namespaceoffloading.Kind(plans).Storage)
	plans.Offloadings = offloadings
	stored(table, "namespacemaps", resource.NamespaceMaps.Storage)
	shadowPods := stored(table, "shadowpods", shadowpod.New(quotas, p.remoteNamespaceOf))
	stored(table, "shadowvolumeclaims", shadowvolumeclaim.New(storage, p.remoteNamespaceOf, p.remoteNamespacesWith))
	stored(table, "shadowendpointslices", resource.ShadowEndpointSlices(p.remoteNamespacesWith).Storage)
	stored(table, "addresspools", resource.AddressPools.Storage)
	stored(table, "clusterinfos", resource.ClusterInfos.Storage)
	stored(table, "networkconfigs", resource.NetworkConfigs.Storage)
	stored(table, "tunnelendpoints", resource.TunnelEndpoints.Storage)
	mappings, err := addressmapping.New(p.Scheme, p.RESTOptionsGetter, addresses)
	if err != nil && table.err == nil {
		table.err = err
	}
	if table.err != nil {
		return nil, table.err
	}
	table.storages["addressmappings"] = mappings
	table.storages["foreignclusters/peer"] = foreigncluster.NewPeerREST(clusters, core.Secrets(p.Namespace), plans)
	table.storages["peeringtokens/invitation"] = peeringtoken.NewInvitationREST(tokens,
		core.ServiceAccounts(p.InvitationNamespace), peeringtoken.Provider{
			ClusterName: p.ClusterName,
			ClusterID:   p.ClusterID,
			Server:      p.AdvertisedServer,
			CA:          p.AdvertisedCA,
			OwnCA:       p.OwnCA,
		})
	table.storages["placementreviews"] = placementreview.New(
		placementreview.NewReader(p.Client, p.Federation, p.FederationInformers, p.Namespace))
	table.storages["resourcerequests/identity"] = resourcerequest.NewIdentityREST(requests, identities)
	table.storages["namespaceoffloadings/offload"] = namespaceoffloading.NewOffloadREST(offloadings, core.Namespaces(),
		plans)
	table.storages["virtualvolumes/move"] = virtualvolume.NewMoveREST(volumes, plans)
	usage := volumestats.New(p.Client, p.Kubelets, clock.RealClock{})
	table.storages["shadowpods/stats"] = shadowpod.NewStatsREST(shadowPods, core, usage.Volumes)
	return table.storages, nil
}

// remoteNamespaceOf returns the consumer of a namespace, and reports whether it is a remote
// namespace. A namespace that is not cached may be new, and is read from the API server.
func (p StorageProvider) remoteNamespaceOf(ctx context.Context, name string) (string, bool, error) {
	namespace, err := p.Namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		namespace, err = p.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return "", false, err
	}
	return namespace.Labels[v1alpha1.LabelForeignCluster],
		namespace.Labels[v1alpha1.LabelRole] == v1alpha1.RoleRemoteNamespace, nil
}

// remoteNamespacesWith returns the remote namespaces of the consumer of a namespace,
// including that one, or only the namespace itself if it is no remote one.
func (p StorageProvider) remoteNamespacesWith(ctx context.Context, name string) ([]string, error) {
	consumer, remote, err := p.remoteNamespaceOf(ctx, name)
	if err != nil || !remote {
		return []string{name}, err
	}
	all, err := p.Namespaces.List(labels.SelectorFromSet(labels.Set{v1alpha1.LabelRole: v1alpha1.RoleRemoteNamespace,
		v1alpha1.LabelForeignCluster: consumer}))
	if err != nil {
		return nil, err
	}
	// The cache may not hold it yet.
	names := sets.New(name)
	for _, namespace := range all {
		names.Insert(namespace.Name)
	}
	return sets.List(names), nil
}

// routes is the table that is being built, with the first error.
type routes struct {
	provider StorageProvider
	storages map[string]rest.Storage
	err      error
}

// stored adds a resource and its status to the table.
func stored[S rest.Storage](
	table *routes, resource string,
	newStorage func(*runtime.Scheme, generic.RESTOptionsGetter) (S, *store.StatusREST, error),
) S {
	storage, status, err := newStorage(table.provider.Scheme, table.provider.RESTOptionsGetter)
	if err != nil && table.err == nil {
		table.err = err
	}
	table.storages[resource], table.storages[resource+"/status"] = storage, status
	return storage
}
