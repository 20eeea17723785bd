// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resource_test

import (
	"context"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apifuzzer "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/fuzzer"
	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/registry/federation/foreigncluster"
	"liqo.io/federation/registry/federation/identityrequest"
	"liqo.io/federation/registry/federation/namespaceoffloading"
	"liqo.io/federation/registry/federation/peeringtoken"
	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/resourcerequest"
	"liqo.io/federation/registry/federation/shadowpod"
	"liqo.io/federation/registry/federation/subresource/plan"
)

// object is an object of any kind of the API.
type object interface {
	runtime.Object
	metav1.Object
}

// kind has the strategies of one kind. held is true if a new object gets the finalizer of the controllers.
type kind struct {
	empty      func() object
	main       rest.CreateUpdateResetFieldsStrategy
	status     rest.UpdateResetFieldsStrategy
	parts      func(object) (spec, status any)
	namespaced bool
	held       bool
}

// strategies is implemented by the strategy of each kind.
type strategies[P resource.Object, S, U any] interface {
	rest.CreateUpdateResetFieldsStrategy
	Status() resource.StatusStrategy[P, S, U]
}

func of[P resource.Object, S, U any](
	s strategies[P, S, U], empty func() P, parts func(P) (*S, *U), namespaced, held bool,
) kind {
	return kind{
		empty: func() object { return empty() }, main: s, status: s.Status(), namespaced: namespaced, held: held,
		parts: func(obj object) (any, any) { spec, status := parts(obj.(P)); return spec, status },
	}
}

func kinds(scheme *runtime.Scheme) map[string]kind {
	return map[string]kind{
		"ForeignCluster": of(foreigncluster.Kind("", plan.Reader{}).Strategy(scheme),
			func() *federation.ForeignCluster { return &federation.ForeignCluster{} },
			func(o *federation.ForeignCluster) (*federation.ForeignClusterSpec, *federation.ForeignClusterStatus) {
				return &o.Spec, &o.Status
			}, false, true),
		"PeeringToken": of(peeringtoken.Kind.Strategy(scheme),
			func() *federation.PeeringToken { return &federation.PeeringToken{} },
			func(o *federation.PeeringToken) (*federation.PeeringTokenSpec, *federation.PeeringTokenStatus) {
				return &o.Spec, &o.Status
			}, false, false),
		"IdentityRequest": of(identityrequest.Kind.Strategy(scheme),
			func() *federation.IdentityRequest { return &federation.IdentityRequest{} },
			func(o *federation.IdentityRequest) (*federation.IdentityRequestSpec, *federation.IdentityRequestStatus) {
				return &o.Spec, &o.Status
			}, false, false),
		"ResourceRequest": of(resourcerequest.Kind.Strategy(scheme),
			func() *federation.ResourceRequest { return &federation.ResourceRequest{} },
			func(o *federation.ResourceRequest) (*federation.ResourceRequestSpec, *federation.ResourceRequestStatus) {
				return &o.Spec, &o.Status
			}, true, false),
		"ResourceOffer": of(resource.ResourceOffers.Strategy(scheme),
			func() *federation.ResourceOffer { return &federation.ResourceOffer{} },
			func(o *federation.ResourceOffer) (*federation.ResourceOfferSpec, *federation.ResourceOfferStatus) {
				return &o.Spec, &o.Status
			}, true, false),
		"VirtualNode": of(resource.VirtualNodes.Strategy(scheme),
			func() *federation.VirtualNode { return &federation.VirtualNode{} },
			func(o *federation.VirtualNode) (*federation.VirtualNodeSpec, *federation.VirtualNodeStatus) {
				return &o.Spec, &o.Status
			}, true, false),
		"NamespaceOffloading": of(namespaceoffloading.Kind(plan.Reader{}).Strategy(scheme),
			func() *federation.NamespaceOffloading { return &federation.NamespaceOffloading{} },
			func(o *federation.NamespaceOffloading) (*federation.NamespaceOffloadingSpec,
				*federation.NamespaceOffloadingStatus) {
				return &o.Spec, &o.Status
			}, true, true),
		"NamespaceMap": of(resource.NamespaceMaps.Strategy(scheme),
			func() *federation.NamespaceMap { return &federation.NamespaceMap{} },
			func(o *federation.NamespaceMap) (*federation.NamespaceMapSpec, *federation.NamespaceMapStatus) {
				return &o.Spec, &o.Status
			}, true, false),
		"ShadowPod": of(shadowpod.NewStrategy(scheme), func() *federation.ShadowPod { return &federation.ShadowPod{} },
			func(o *federation.ShadowPod) (*federation.ShadowPodSpec, *federation.ShadowPodStatus) {
				return &o.Spec, &o.Status
			}, true, true),
		"NetworkConfig": of(resource.NetworkConfigs.Strategy(scheme),
			func() *federation.NetworkConfig { return &federation.NetworkConfig{} },
			func(o *federation.NetworkConfig) (*federation.NetworkConfigSpec, *federation.NetworkConfigStatus) {
				return &o.Spec, &o.Status
			}, true, false),
		"TunnelEndpoint": of(resource.TunnelEndpoints.Strategy(scheme),
			func() *federation.TunnelEndpoint { return &federation.TunnelEndpoint{} },
			func(o *federation.TunnelEndpoint) (*federation.TunnelEndpointSpec, *federation.TunnelEndpointStatus) {
				return &o.Spec, &o.Status
			}, true, false),
		"ShadowEndpointSlice": of(resource.ShadowEndpointSlices(nil).Strategy(scheme),
			func() *federation.ShadowEndpointSlice { return &federation.ShadowEndpointSlice{} },
			func(o *federation.ShadowEndpointSlice) (*federation.ShadowEndpointSliceSpec,
				*federation.ShadowEndpointSliceStatus) {
				return &o.Spec, &o.Status
			}, true, false),
	}
}

func TestEachRequestChangesOnlySpecOrStatus(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme)
	for name, kind := range kinds(scheme) {
		t.Run(name, func(t *testing.T) {
			fill := apifuzzer.FuzzerFor(apifuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, fuzzer.Funcs), rand.NewSource(1), codecs)
			random := func() object {
				obj := kind.empty()
				fill.Fill(obj)
				// Strategies set an empty trust.
				if cluster, ok := obj.(*federation.ForeignCluster); ok && cluster.Spec.Trust == "" {
					cluster.Spec.Trust = federation.TrustTenant
				}
				return obj
			}
			for range 100 {
				created := random()
				sent := created.DeepCopyObject().(object)
				kind.main.PrepareForCreate(t.Context(), created)
				spec, status := kind.parts(created)
				sentSpec, _ := kind.parts(sent)
				_, none := kind.parts(kind.empty())
				equal(t, "the requested spec", sentSpec, spec)
				equal(t, "the status of a new object", none, status)
				if created.GetGeneration() != 1 {
					t.Fatalf("got generation %d of a new object, want 1", created.GetGeneration())
				}

				old, updated := random(), random()
				if rand.Intn(2) == 0 {
					updated = old.DeepCopyObject().(object)
				}
				old.SetGeneration(7)
				updated.SetGeneration(7)
				sent = updated.DeepCopyObject().(object)
				kind.main.PrepareForUpdate(t.Context(), updated, old)
				spec, status = kind.parts(updated)
				oldSpec, oldStatus := kind.parts(old)
				sentSpec, _ = kind.parts(sent)
				equal(t, "the requested spec", sentSpec, spec)
				equal(t, "the old status", oldStatus, status)
				want := int64(7)
				if !apiequality.Semantic.DeepEqual(spec, oldSpec) {
					want = 8
				}
				if updated.GetGeneration() != want {
					t.Fatalf("got generation %d, want %d", updated.GetGeneration(), want)
				}

				updated = random()
				updated.SetGeneration(7)
				sent = updated.DeepCopyObject().(object)
				kind.status.PrepareForUpdate(t.Context(), updated, old)
				spec, status = kind.parts(updated)
				_, sentStatus := kind.parts(sent)
				equal(t, "the old spec", oldSpec, spec)
				equal(t, "the requested status", sentStatus, status)
				equal(t, "the old labels", old.GetLabels(), updated.GetLabels())
				equal(t, "the old annotations", old.GetAnnotations(), updated.GetAnnotations())
				equal(t, "the old finalizers", old.GetFinalizers(), updated.GetFinalizers())
				equal(t, "the old owners", old.GetOwnerReferences(), updated.GetOwnerReferences())
				if updated.GetGeneration() != 7 {
					t.Fatalf("got generation %d after a change of the status, want 7", updated.GetGeneration())
				}
			}
		})
	}
}

// A peer's finalizer would block the deletion of its tenant namespace after unpeering. Without the finalizers of local
// controllers, their cleanup would be skipped.
func TestPeersCannotChangeFinalizers(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	as := func(name string, groups ...string) context.Context {
		return genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: name, Groups: groups})
	}
	local, remote := []string{v1alpha1.Finalizer}, []string{"example.org/stays"}
	for name, kind := range kinds(scheme) {
		for _, test := range []struct {
			name string
			ctx  context.Context
			peer bool
		}{
			{"a peer with a certificate", as("6c2a3f0e", v1alpha1.PeerGroup), true},
			{"a peer with a service account", as("system:serviceaccount:liqo-tenant-milan:federation-peer"), true},
			{"an administrator", as("admin", "system:masters"), false},
		} {
			t.Run(name+" of "+test.name, func(t *testing.T) {
				created := kind.empty()
				created.SetFinalizers(slices.Clone(remote))
				kind.main.PrepareForCreate(test.ctx, created)
				if got := slices.Contains(created.GetFinalizers(), remote[0]); got == test.peer {
					t.Errorf("got the finalizers %v of a new object", created.GetFinalizers())
				}
				for _, requested := range [][]string{nil, remote, append(slices.Clone(local), remote...)} {
					old, updated := kind.empty(), kind.empty()
					old.SetFinalizers(local)
					updated.SetFinalizers(requested)
					kind.main.PrepareForUpdate(test.ctx, updated, old)
					want := requested
					if test.peer {
						want = local
					}
					equal(t, "finalizers", want, updated.GetFinalizers())
				}
			})
		}
	}
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if !apiequality.Semantic.DeepEqual(want, got) {
		t.Fatalf("%s (-want +got):\n%s", what, cmp.Diff(want, got))
	}
}

func TestStrategiesAreStrict(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	version := fieldpath.APIVersion("federation.liqo.io/v1alpha1")
	for name, kind := range kinds(scheme) {
		t.Run(name, func(t *testing.T) {
			for _, s := range []rest.UpdateResetFieldsStrategy{kind.main, kind.status} {
				if s.AllowCreateOnUpdate(t.Context()) || s.AllowUnconditionalUpdate(t.Context()) ||
					s.NamespaceScoped() != kind.namespaced {
					t.Error("an update may create an object or needs no resourceVersion, or the scope is wrong")
				}
			}
			if got := kind.main.GetResetFields()[version]; !got.Equals(fieldpath.NewSet(fieldpath.MakePathOrDie("status"))) {
				t.Errorf("the resource resets %v", got)
			}
			if got := kind.status.GetResetFields()[version]; !got.Equals(fieldpath.NewSet(fieldpath.MakePathOrDie("spec"),
				fieldpath.MakePathOrDie("metadata"))) {
				t.Errorf("the status resets %v", got)
			}
			obj := kind.empty()
			kind.main.PrepareForCreate(t.Context(), obj)
			kind.main.PrepareForCreate(t.Context(), obj)
			if want := map[bool]int{true: 1}[kind.held]; len(obj.GetFinalizers()) != want || kind.held &&
				obj.GetFinalizers()[0] != v1alpha1.Finalizer {
				t.Errorf("got the finalizers %v of a new object", obj.GetFinalizers())
			}
		})
	}
}
