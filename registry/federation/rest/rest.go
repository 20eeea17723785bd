// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rest defines the resources and subresources that the federation API serves.
package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
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
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/apiserver/volume"
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

// StorageProvider has the dependencies of the storage of all resources.
type StorageProvider struct {
	// Scheme has the types of all versions of the federation API.
	Scheme *runtime.Scheme
	// Codecs encode and decode the objects of Scheme.
	Codecs serializer.CodecFactory
	// RESTOptionsGetter configures the etcd storage of each resource.
	RESTOptionsGetter generic.RESTOptionsGetter
	// Client is a client of the local cluster's Kubernetes API with the identity of this server.
	Client kubernetes.Interface
	// Kubelets is the HTTP client for kubelets of the local cluster; see volumestats.Client.
	Kubelets *http.Client
	// Namespaces lists the namespaces of the local cluster from a cache.
	Namespaces corelisters.NamespaceLister
	// Federation is a client of this server, and FederationInformers are informers with this client. The caller starts
	// them.
	Federation          versioned.Interface
	FederationInformers externalversions.SharedInformerFactory
	// Alone is true if no other server writes to the same etcd.
	Alone bool

	// Namespace is the installation namespace.
	Namespace string
	// InvitationNamespace is the namespace with the ServiceAccounts and the Secrets of invitations.
	InvitationNamespace string
	// ClusterName is the name of the local cluster, and of the ForeignCluster that peers create for it.
	ClusterName string
	// ClusterID is the UID of the local cluster's namespace kube-system.
	ClusterID string
	// Server is the https URL of the local cluster's Kubernetes API in invitations. If empty, only in-band
	// invitations can be issued.
	Server string
	// ServerCA is the PEM-encoded CA bundle for the certificate of Server in invitations. If it is empty,
	// the consumer uses the CA bundle of its system.
	ServerCA []byte
	// Trust is the spec.trust of new ForeignClusters that specify none.
	Trust federation.PeeringTrust
	// Pods are the limits for pods of consumers that the flags of this server set.
	Pods trust.PodFlags
	// APIAccess is the access to the local API server that the flags of this server permit pods on providers.
	APIAccess v1alpha1.APIAccess
	// OwnCA is the PEM-encoded CA bundle for kube-apiserver's certificate for the host name kubernetes.default.svc, which
	// in-band invitations contain.
	OwnCA []byte
}

// Background has the tasks that run while the API is served.
type Background struct {
	quotas    *podquota.Quotas
	pods      *shadowpod.REST
	storage   *storagequota.Quotas
	claims    *shadowvolumeclaim.REST
	addresses *addressrange.Addresses
	mappings  ledger.Source
	pools     rest.Lister
	// poolStatus is the storage of the status of AddressPools.
	poolStatus *store.StatusREST
}

// Run keeps the ledgers and the status of AddressPools up to date until ctx is done.
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

// Ready waits until quota and addresses can be reserved. It fails if ctx is done before.
func (b *Background) Ready(ctx context.Context) error {
	return errors.Join(b.quotas.WaitForObjects(ctx), b.storage.WaitForObjects(ctx), b.addresses.WaitForObjects(ctx))
}

// Close closes the etcd connections of the ledgers.
func (b *Background) Close() {
	b.quotas.Close()
	b.storage.Close()
	b.addresses.Close()
}

// APIGroupInfo returns all resources and subresources of the API group, and the tasks to run while they are served. It
// fails if an etcd storage cannot be configured.
func (p StorageProvider) APIGroupInfo() (genericapiserver.APIGroupInfo, *Background, error) {
	quotas, err := podquota.Open(p.RESTOptionsGetter, p.Alone)
	if err != nil {
		return genericapiserver.APIGroupInfo{}, nil, err
	}
	storage, err := storagequota.Open(p.RESTOptionsGetter, p.Alone, p.retainedVolumes)
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

// v1alpha1 returns the storage of each resource and subresource, by path. It fails if an etcd storage cannot be
// configured.
func (p StorageProvider) v1alpha1(
	quotas *podquota.Quotas, storage *storagequota.Quotas, addresses *addressrange.Addresses,
) (map[string]rest.Storage, error) {
	table := &routes{provider: p, storages: map[string]rest.Storage{}}
	volumes := stored(table, "virtualvolumes", virtualvolume.New)
	var clusters *store.REST
	limitsOf := func(ctx context.Context, consumer string) (*v1alpha1.PodPolicy, error) {
		return p.podLimitsOf(ctx, clusters, consumer)
	}
	shadowPods := stored(table, "shadowpods", shadowpod.New(quotas, p.remoteNamespaceOf, limitsOf))
	virtualNodes := stored(table, "virtualnodes", resource.VirtualNodes.Storage)
	clusters = stored(table, "foreignclusters", foreigncluster.Kind(p.Trust, plan.Reader{
		VirtualNodes: virtualNodes, Volumes: volumes, ShadowPods: shadowPods, Pods: p.Pods, APIAccess: p.APIAccess,
	}).Storage)
	tokens := stored(table, "peeringtokens", peeringtoken.Kind.Storage)
	identities := stored(table, "identityrequests", identityrequest.New(p.InvitationNamespace))
	requests := stored(table, "resourcerequests", resourcerequest.Kind.Storage)
	offers := stored(table, "resourceoffers", resource.ResourceOffers.Storage)
	core := p.Client.CoreV1()
	plans := plan.Reader{
		Clusters: clusters, VirtualNodes: virtualNodes, Volumes: volumes, Offers: offers, Kube: p.Client,
		ClusterName: p.ClusterName, ClusterID: p.ClusterID,
	}
	offloadings := stored(table, "namespaceoffloadings", namespaceoffloading.Kind(plans).Storage)
	plans.Offloadings = offloadings
	stored(table, "namespacemaps", resource.NamespaceMaps.Storage)
	stored(table, "shadowvolumeclaims", shadowvolumeclaim.New(storage, p.remoteNamespaceOf, p.remoteNamespacesWith))
	stored(table, "shadowendpointslices", resource.ShadowEndpointSlices(p.remoteNamespacesWith).Storage)
	stored(table, "addresspools", resource.AddressPools.Storage)
	stored(table, "clusterinfos", resource.ClusterInfos.Storage)
	stored(table, "networkconfigs", resource.NetworkConfigs.Storage)
	stored(table, "tunnelendpoints", resource.TunnelEndpoints.Storage)
	stored(table, "tunnelreaches", resource.TunnelReaches.Storage)
	delete(table.storages, "tunnelreaches/status") // a TunnelReach has no status
	mappings, err := addressmapping.New(p.Scheme, p.RESTOptionsGetter, addresses)
	if err != nil && table.err == nil {
		table.err = err
	}
	if table.err != nil {
		return nil, table.err
	}
	table.storages["addressmappings"] = mappings
	table.storages["foreignclusters/peer"] = foreigncluster.NewPeerREST(clusters, core.Secrets(p.InvitationNamespace),
		plans)
	table.storages["peeringtokens/invitation"] = peeringtoken.NewInvitationREST(tokens,
		core.ServiceAccounts(p.InvitationNamespace), peeringtoken.Provider{
			ClusterName: p.ClusterName,
			ClusterID:   p.ClusterID,
			Server:      p.Server,
			CA:          p.ServerCA,
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

// remoteNamespaceOf returns the consumer of a namespace, and whether it is a remote namespace. A namespace that is not
// cached may be new, and is read from the API server. It fails with NotFound if the namespace does not exist.
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

// retainedVolumes implements storagequota.Retained with the API server of the local cluster.
func (p StorageProvider) retainedVolumes(ctx context.Context, consumer string) ([]corev1.PersistentVolume, error) {
	list, err := p.Client.CoreV1().PersistentVolumes().List(ctx,
		metav1.ListOptions{LabelSelector: labels.SelectorFromSet(volume.Retained(consumer)).String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// podLimitsOf returns the limits for pods of a consumer; nil if the consumer has none. It reads the ForeignCluster of
// the consumer from the cache of clusters. A consumer without a ForeignCluster has the limits of trust Tenant.
func (p StorageProvider) podLimitsOf(
	ctx context.Context, clusters rest.Getter, consumer string,
) (*v1alpha1.PodPolicy, error) {
	obj, err := clusters.Get(ctx, consumer, &metav1.GetOptions{ResourceVersion: "0"})
	cluster := &v1alpha1.ForeignCluster{Spec: v1alpha1.ForeignClusterSpec{Trust: v1alpha1.TrustTenant}}
	switch {
	case err == nil:
		err = v1alpha1.Convert_federation_ForeignCluster_To_v1alpha1_ForeignCluster(
			obj.(*federation.ForeignCluster), cluster, nil)
	case apierrors.IsNotFound(err):
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return p.Pods.PodLimits(cluster), nil
}

// remoteNamespacesWith returns the sorted names of all remote namespaces that have the same consumer as the remote
// namespace name, including name. For any other namespace it returns only name.
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
	// The cache may not contain the namespace yet.
	names := sets.New(name)
	for _, namespace := range all {
		names.Insert(namespace.Name)
	}
	return sets.List(names), nil
}

// routes collects the storage of each resource, by path, and the first error.
type routes struct {
	provider StorageProvider
	storages map[string]rest.Storage
	err      error
}

// stored adds the storage of a resource and of its status to table. The returned storage is invalid if table.err is
// set.
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
