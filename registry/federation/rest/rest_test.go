// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
	federationfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/generated/informers/externalversions"
	"liqo.io/federation/registry/federation/addressmapping"
	"liqo.io/federation/registry/federation/placementreview"
	"liqo.io/federation/registry/federation/reservation/addressrange"
	"liqo.io/federation/registry/federation/reservation/podquota"
	"liqo.io/federation/registry/federation/reservation/storagequota"
	"liqo.io/federation/registry/federation/shadowpod"
	"liqo.io/federation/registry/federation/shadowvolumeclaim"
	"liqo.io/federation/registry/federation/store"
)

// options are RESTOptions without an etcd: no test sends a request that reaches the storage.
type options struct {
	config *storagebackend.ConfigForResource
}

func (o options) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig:  o.config,
		ResourcePrefix: resource.String(),
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error),
			func() runtime.Object, func() runtime.Object,
			storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return nil, func() {}, nil
		},
	}, nil
}

func table(t *testing.T) map[string]rest.Storage {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme)
	config := storagebackend.NewDefaultConfig("/registry", codecs.LegacyCodec(v1alpha1.SchemeGroupVersion))
	provider := StorageProvider{
		Scheme: scheme, Codecs: codecs, Client: fake.NewClientset(),
		RESTOptionsGetter:   options{config.ForResource(federation.Resource("any"))},
		FederationInformers: externalversions.NewSharedInformerFactory(federationfake.NewClientset(), 0),
		Namespace:           "liqo",
		InvitationNamespace: "liqo-invitations",
	}
	routes, err := provider.v1alpha1(&podquota.Quotas{}, &storagequota.Quotas{}, &addressrange.Addresses{})
	if err != nil {
		t.Fatal(err)
	}
	return routes
}

func TestRoutes(t *testing.T) {
	want := []string{
		"addressmappings", "addresspools", "addresspools/status", "clusterinfos", "clusterinfos/status",
		"foreignclusters", "foreignclusters/peer", "foreignclusters/status",
		"identityrequests", "identityrequests/status",
		"namespacemaps", "namespacemaps/status",
		"namespaceoffloadings", "namespaceoffloadings/offload", "namespaceoffloadings/status",
		"networkconfigs", "networkconfigs/status",
		"peeringtokens", "peeringtokens/invitation", "peeringtokens/status",
		"placementreviews",
		"resourceoffers", "resourceoffers/status",
		"resourcerequests", "resourcerequests/identity", "resourcerequests/status",
		"shadowendpointslices", "shadowendpointslices/status",
		"shadowpods", "shadowpods/stats", "shadowpods/status",
		"shadowvolumeclaims", "shadowvolumeclaims/status",
		"tunnelendpoints", "tunnelendpoints/status", "tunnelreaches",
		"virtualnodes", "virtualnodes/status",
		"virtualvolumes", "virtualvolumes/move", "virtualvolumes/status",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(table(t)))); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

// clusters returns ForeignClusters by name.
type clusters map[string]federation.ForeignClusterSpec

func (c clusters) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	spec, found := c[name]
	switch {
	case name == "unreadable":
		return nil, apierrors.NewTimeoutError("etcd does not respond", 1)
	case !found:
		return nil, apierrors.NewNotFound(federation.Resource("foreignclusters"), name)
	}
	return &federation.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, nil
}

func TestLimitsForPodsAreThoseOfTheForeignCluster(t *testing.T) {
	stored := clusters{
		"tenant": {Trust: federation.TrustTenant}, "owner": {Trust: federation.TrustSameOwner}, "v0.1.0": {},
		"permitted": {Trust: federation.TrustTenant, IncomingPolicy: federation.IncomingPolicy{
			Pods: federation.PodPolicy{Tolerations: []string{"dedicated"}},
		}},
	}
	hour := ptr.To[int64](trust.DefaultMaxGracePeriodSeconds)
	for _, test := range []struct {
		name, consumer string
		flags          trust.PodFlags
		want           *v1alpha1.PodPolicy
		fails          bool
	}{
		{name: "tenant", consumer: "tenant", want: &v1alpha1.PodPolicy{MaxGracePeriodSeconds: hour}},
		{name: "flags", consumer: "tenant", flags: trust.PodFlags{RuntimeClasses: []string{"gvisor"}},
			want: &v1alpha1.PodPolicy{RuntimeClasses: []string{"gvisor"}, MaxGracePeriodSeconds: hour}},
		{name: "permitted", consumer: "permitted",
			want: &v1alpha1.PodPolicy{Tolerations: []string{"dedicated"}, MaxGracePeriodSeconds: hour}},
		{name: "same owner", consumer: "owner"},
		{name: "no trust", consumer: "v0.1.0"},
		{name: "no ForeignCluster", consumer: "gone", want: &v1alpha1.PodPolicy{MaxGracePeriodSeconds: hour}},
		{name: "no answer", consumer: "unreadable", fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := StorageProvider{Pods: test.flags}.podLimitsOf(t.Context(), stored, test.consumer)
			if (err != nil) != test.fails {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResourcesHaveSingularShortAndCategoryNames(t *testing.T) {
	type names struct {
		Singular string
		Short    []string
	}
	want := map[string]names{
		"foreignclusters": {"foreigncluster", []string{"fc"}}, "peeringtokens": {"peeringtoken",
			[]string{"pt"}}, "identityrequests": {Singular: "identityrequest"},
		"resourcerequests": {"resourcerequest", []string{"rr"}}, "resourceoffers": {"resourceoffer",
			[]string{"ro"}}, "virtualnodes": {"virtualnode", []string{"vn"}},
		"virtualvolumes":       {"virtualvolume", []string{"vvol"}},
		"namespaceoffloadings": {"namespaceoffloading", []string{"nsof"}}, "namespacemaps": {"namespacemap",
			[]string{"nm"}}, "shadowpods": {"shadowpod", []string{"sp"}},
		"shadowendpointslices": {"shadowendpointslice", []string{"seps"}},
		"shadowvolumeclaims":   {"shadowvolumeclaim", []string{"shvc"}},
		"addresspools":         {"addresspool", []string{"apool"}}, "addressmappings": {"addressmapping", []string{"am"}},
		"clusterinfos":   {"clusterinfo", []string{"ci"}},
		"networkconfigs": {"networkconfig", []string{"netcfg"}}, "tunnelendpoints": {"tunnelendpoint", []string{"te"}},
		"tunnelreaches": {"tunnelreach", []string{"tr"}},
	}
	got := map[string]names{}
	for route, resource := range table(t) {
		named, ok := resource.(rest.SingularNameProvider)
		if _, review := resource.(*placementreview.REST); review || !ok {
			continue
		}
		got[route] = names{named.GetSingularName(), resource.(rest.ShortNamesProvider).ShortNames()}
		if diff := cmp.Diff([]string{store.Category}, resource.(rest.CategoriesProvider).Categories()); diff != "" {
			t.Errorf("categories of %s (-want +got):\n%s", route, diff)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestDeclaredSelectableFieldsAreServed(t *testing.T) {
	got := map[string][]string{}
	for _, resource := range table(t) {
		var stored *store.REST
		switch resource := resource.(type) {
		case *store.REST:
			stored = resource
		case *shadowpod.REST:
			stored = resource.REST
		case *shadowvolumeclaim.REST:
			stored = resource.REST
		case *addressmapping.REST:
			stored = resource.REST
		default:
			continue
		}
		obj := stored.New()
		_, selectable, err := stored.PredicateFunc(labels.Everything(), fields.Everything()).GetAttrs(obj)
		if err != nil {
			t.Fatal(err)
		}
		declared := slices.DeleteFunc(slices.Sorted(maps.Keys(selectable)),
			func(field string) bool { return strings.HasPrefix(field, "metadata.") })
		if len(declared) > 0 {
			got[reflect.TypeOf(obj).Elem().Name()] = declared
		}
	}
	if diff := cmp.Diff(v1alpha1.SelectableFields, got); diff != "" {
		t.Errorf("selectable fields (-declared +served):\n%s", diff)
	}
}

func TestRemoteNamespacesOfAConsumerCountTogether(t *testing.T) {
	cached := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	namespace := func(name, role, cluster string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{v1alpha1.LabelRole: role, v1alpha1.LabelForeignCluster: cluster}}}
	}
	for _, one := range []*corev1.Namespace{
		namespace("shop-milan", v1alpha1.RoleRemoteNamespace, "milan"),
		namespace("web-milan", v1alpha1.RoleRemoteNamespace, "milan"),
		namespace("liqo-tenant-milan", v1alpha1.RoleTenant, "milan"),
		namespace("web-rome", v1alpha1.RoleRemoteNamespace, "rome"),
		{ObjectMeta: metav1.ObjectMeta{Name: "web"}},
	} {
		if err := cached.Add(one); err != nil {
			t.Fatal(err)
		}
	}
	provider := StorageProvider{Namespaces: corelisters.NewNamespaceLister(cached),
		Client: fake.NewClientset(namespace("new-milan", v1alpha1.RoleRemoteNamespace, "milan"))}
	for name, want := range map[string][]string{
		"web-milan": {"shop-milan", "web-milan"},
		// new-milan is not cached, but the API server returns it.
		"new-milan":         {"new-milan", "shop-milan", "web-milan"},
		"web-rome":          {"web-rome"},
		"liqo-tenant-milan": {"liqo-tenant-milan"},
		"web":               {"web"},
	} {
		got, err := provider.remoteNamespacesWith(t.Context(), name)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	if _, err := provider.remoteNamespacesWith(t.Context(), "gone"); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace that does not exist: got %v, want NotFound", err)
	}
}

// invalid has, by kind, an object that every route of this kind must refuse.
var invalid = map[string]runtime.Object{
	"ForeignCluster": &federation.ForeignCluster{Spec: federation.ForeignClusterSpec{Server: "ftp://x"},
		Status: federation.ForeignClusterStatus{OutgoingPeering: "Wrong"}},
	"Peering": &federation.Peering{Spec: federation.PeeringSpec{Outgoing: federation.PeeringEnabled,
		Server: "ftp://x", Token: "t"}},
	"PeeringToken": &federation.PeeringToken{Spec: federation.PeeringTokenSpec{ConsumerClusterID: "x"},
		Status: federation.PeeringTokenStatus{UsedBy: "x"}},
	"Invitation":      &federation.Invitation{ObjectMeta: metav1.ObjectMeta{Name: "another"}},
	"IdentityRequest": &federation.IdentityRequest{Status: federation.IdentityRequestStatus{Certificate: []byte("x")}},
	"ResourceRequest": &federation.ResourceRequest{Status: federation.ResourceRequestStatus{Phase: "Wrong"}},
	"ResourceOffer":   &federation.ResourceOffer{Status: federation.ResourceOfferStatus{Phase: "Wrong"}},
	"VirtualNode":     &federation.VirtualNode{Status: federation.VirtualNodeStatus{Pods: -1}},
	"VirtualVolume": &federation.VirtualVolume{Status: federation.VirtualVolumeStatus{Phase: "Wrong"},
		Spec: federation.VirtualVolumeSpec{Move: &federation.RequestedMove{}}},
	"Move":                &federation.Move{Spec: federation.MoveSpec{Strategy: "Sometimes"}},
	"NamespaceOffloading": &federation.NamespaceOffloading{Status: federation.NamespaceOffloadingStatus{Phase: "Wrong"}},
	"Offload":             &federation.Offload{Spec: federation.NamespaceOffloadingSpec{PodOffloadingStrategy: "x"}},
	"NamespaceMap":        &federation.NamespaceMap{Status: federation.NamespaceMapStatus{ObservedGeneration: -1}},
	"AddressPool":         &federation.AddressPool{Status: federation.AddressPoolStatus{Mappings: -1}},
	"ClusterInfo":         &federation.ClusterInfo{Status: federation.ClusterInfoStatus{ClusterID: "x"}},
	"AddressMapping":      &federation.AddressMapping{Spec: federation.AddressMappingSpec{CIDR: "0.0.0.0/0"}},
	"NetworkConfig":       &federation.NetworkConfig{Status: federation.NetworkConfigStatus{CIDRs: []federation.CIDRMapping{{CIDR: "10.0.0.0/8"}}}},
	"TunnelReach":         &federation.TunnelReach{Spec: federation.TunnelReachSpec{Addresses: []string{"127.0.0.1"}}},
	"TunnelEndpoint":      &federation.TunnelEndpoint{Status: federation.TunnelEndpointStatus{Phase: "Wrong"}},
	"ShadowPod":           &federation.ShadowPod{Status: federation.ShadowPodStatus{Phase: "Running"}},
	"ShadowVolumeClaim":   &federation.ShadowVolumeClaim{Status: federation.ShadowVolumeClaimStatus{Phase: "Wrong"}},
	"AdmissionReview":     &admissionv1.AdmissionReview{},
	"ShadowEndpointSlice": &federation.ShadowEndpointSlice{Status: federation.ShadowEndpointSliceStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: "Maybe"}}}},
}

func TestEveryRouteRefusesInvalidObjects(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	if err := admissionv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	ctx := genericapirequest.WithNamespace(t.Context(), "web")
	for route, resource := range table(t) {
		t.Run(route, func(t *testing.T) {
			kinds, _, err := scheme.ObjectKinds(resource.New())
			if err != nil {
				t.Fatal(err)
			}
			body, ok := invalid[kinds[0].Kind]
			if !ok {
				t.Fatalf("this test has no invalid %s", kinds[0].Kind)
			}
			// A route that serves only GET receives no objects.
			connected, tried := resource.(rest.Connecter)
			tried = tried && slices.Equal(connected.ConnectMethods(), []string{http.MethodGet})
			if named, ok := resource.(rest.NamedCreater); ok {
				tried = true
				_, err := named.Create(ctx, "offloading", body.DeepCopyObject(), rest.ValidateAllObjectFunc,
					&metav1.CreateOptions{})
				refused(t, "POST", err)
			}
			if review, ok := resource.(*placementreview.REST); ok {
				tried = true
				_, err := review.Create(ctx, body, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
				refused(t, "POST", err)
			}
			if stored, ok := resource.(interface {
				GetCreateStrategy() rest.RESTCreateStrategy
			}); ok {
				refusedBy(t, "POST", stored.GetCreateStrategy().Validate(ctx, body).ToAggregate())
			}
			if stored, ok := resource.(interface {
				GetUpdateStrategy() rest.RESTUpdateStrategy
			}); ok {
				tried = true
				refusedBy(t, "PUT", stored.GetUpdateStrategy().ValidateUpdate(ctx, body, resource.New()).ToAggregate())
			}
			if !tried {
				t.Errorf("%T does not validate its objects", resource)
			}
		})
	}
}

func refused(t *testing.T, method string, err error) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code < http.StatusBadRequest ||
		status.Status().Code >= http.StatusInternalServerError {
		t.Errorf("an invalid %s: got %v, want status 4xx", method, err)
	}
}

func refusedBy(t *testing.T, method string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("an invalid %s is accepted", method)
	}
}
