// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/registry/federation/subresource/plan"
	"liqo.io/federation/registry/federation/subresource/subresourcetest"
	"liqo.io/federation/test/fakes"
)

const (
	namespace   = "liqo-invitations"
	romeID      = "0c9e8d7f-1a2b-4c3d-8e4f-5a6b7c8d9e0f"
	milanID     = "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11"
	otherID     = "9a4b0a8e-5a3e-4a53-8f2e-6b1f1f1f2c22"
	secretToken = "eyJhbGciOiJFUzI1NiJ9.secret.signature"
)

// world is the subresource peer with the stores that it uses.
type world struct {
	*PeerREST
	clusters *subresourcetest.Parent[*federation.ForeignCluster]
	kube     *fake.Clientset
}

// volumes has two volumes on milan and a local one. offloadings has the policy for the volume in namespace web.
var (
	volumes = subresourcetest.List(func() runtime.Object {
		at := federation.VirtualVolumeStatus{Location: &federation.VolumeLocation{ClusterName: "milan"}}
		return &federation.VirtualVolumeList{Items: []federation.VirtualVolume{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "data"}, Status: at},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}, Status: at},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "local"}},
		}}
	})
	offloadings = subresourcetest.List(func() runtime.Object {
		return &federation.NamespaceOffloadingList{Items: []federation.NamespaceOffloading{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "web"},
			Spec: federation.NamespaceOffloadingSpec{
				Volumes: federation.NamespaceVolumes{OnUnoffload: federation.UnoffloadMove},
			},
		}}}
	})
)

func newWorld(secrets ...runtime.Object) *world {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	clusters := &subresourcetest.Parent[*federation.ForeignCluster]{
		Strategy: Kind("", plan.Reader{Volumes: volumes}).Strategy(scheme),
		Resource: federation.Resource("foreignclusters"),
		Empty:    func() *federation.ForeignCluster { return &federation.ForeignCluster{} },
	}
	kube := fake.NewClientset(secrets...)
	plans := plan.Reader{
		Clusters: subresourcetest.List(func() runtime.Object {
			list := &federation.ForeignClusterList{}
			for _, name := range []string{"milan", "turin"} {
				if cluster, ok := clusters.Stored(name); ok {
					list.Items = append(list.Items, *cluster)
				}
			}
			return list
		}),
		VirtualNodes: subresourcetest.List(func() runtime.Object {
			return &federation.VirtualNodeList{Items: []federation.VirtualNode{{Status: federation.VirtualNodeStatus{Pods: 3}}}}
		}),
		Volumes: volumes, Offloadings: offloadings, Kube: kube, ClusterName: "rome", ClusterID: romeID,
	}
	return &world{PeerREST: NewPeerREST(clusters, kube.CoreV1().Secrets(namespace), plans), clusters: clusters, kube: kube}
}

// token returns the stored token of the invitation; empty if its Secret does not exist.
func (w *world) token(t *testing.T) string {
	t.Helper()
	secret, err := w.kube.CoreV1().Secrets(namespace).Get(t.Context(), "invitation-milan", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(secret.Data[v1alpha1.InvitationTokenKey])
}

func (w *world) post(t *testing.T, peering *federation.Peering, dryRun ...string) (*federation.Peering, error) {
	t.Helper()
	obj, err := w.Create(request(t), "milan", peering, rest.ValidateAllObjectFunc, &metav1.CreateOptions{DryRun: dryRun})
	if err != nil {
		return nil, err
	}
	return obj.(*federation.Peering), nil
}

func (w *world) patch(t *testing.T, change func(*federation.Peering)) (*federation.Peering, error) {
	t.Helper()
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		peering := old.DeepCopyObject().(*federation.Peering)
		change(peering)
		return peering, nil
	})
	obj, _, err := w.Update(request(t), "milan", info, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false,
		&metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*federation.Peering), nil
}

func request(t *testing.T) context.Context {
	return genericapirequest.WithNamespace(t.Context(), metav1.NamespaceNone)
}

func invitation(change ...func(*federation.Peering)) *federation.Peering {
	peering := &federation.Peering{Spec: federation.PeeringSpec{
		ClusterID: milanID,
		Server:    "https://milan.example.org:6443",
		Token:     secretToken,
	}}
	for _, c := range change {
		c(peering)
	}
	return peering
}

func secret(token string, kind corev1.SecretType) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "invitation-milan", Namespace: namespace},
		Type:       kind,
		Data:       map[string][]byte{v1alpha1.InvitationTokenKey: []byte(token)},
	}
}

func TestPeerAcceptsAnInvitation(t *testing.T) {
	w := newWorld()
	answer, err := w.post(t, invitation())
	if err != nil {
		t.Fatal(err)
	}
	if answer.Spec.Token != "" {
		t.Error("the response contains the token")
	}
	if answer.Spec.Outgoing != federation.PeeringEnabled || answer.UID == "" || answer.ResourceVersion == "" ||
		answer.Name != "milan" {
		t.Errorf("the response is not the current peering: %+v", answer)
	}
	stored, ok := w.clusters.Stored("milan")
	if !ok {
		t.Fatal("the ForeignCluster was not created")
	}
	want := federation.ForeignClusterSpec{
		ClusterID: milanID, Outgoing: federation.PeeringEnabled, Incoming: federation.PeeringDisabled,
		Server: "https://milan.example.org:6443", InvitationSecretName: "invitation-milan",
	}
	if diff := cmp.Diff(want, stored.Spec); diff != "" {
		t.Errorf("the spec differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{v1alpha1.Finalizer}, stored.Finalizers); diff != "" {
		t.Errorf("the finalizers differ (-want +got):\n%s", diff)
	}
	kept, err := w.kube.CoreV1().Secrets(namespace).Get(t.Context(), "invitation-milan", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if kept.Type != v1alpha1.SecretTypeInvitation || string(kept.Data["token"]) != secretToken ||
		kept.Labels[v1alpha1.LabelForeignCluster] != "milan" {
		t.Errorf("the Secret is not the invitation: type %q, labels %v", kept.Type, kept.Labels)
	}
}

func TestPeerIsIdempotent(t *testing.T) {
	for name, meanwhile := range map[string]func(*world){
		"immediately": func(*world) {},
		"after the identity was accepted and the Secret was deleted": func(w *world) {
			cluster, _ := w.clusters.Stored("milan")
			cluster = cluster.DeepCopy()
			cluster.Status.Authentication = federation.PeeringEstablished
			w.clusters.Put(cluster)
			if err := w.kube.CoreV1().Secrets(namespace).Delete(context.Background(), "invitation-milan",
				metav1.DeleteOptions{}); err != nil {
				panic(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if _, err := w.post(t, invitation()); err != nil {
				t.Fatal(err)
			}
			meanwhile(w)
			token, before := w.token(t), w.clusters.Writes()
			first, err := w.Get(request(t), "milan", &metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			second, err := w.post(t, invitation())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(first, runtime.Object(second)); diff != "" {
				t.Errorf("the second response differs (-first +second):\n%s", diff)
			}
			if w.clusters.Writes() != before || w.token(t) != token {
				t.Error("the second POST wrote an object")
			}
		})
	}
}

func TestPeerContradictionsAreConflicts(t *testing.T) {
	for field, change := range map[string]func(*federation.Peering){
		"spec.clusterID": func(p *federation.Peering) { p.Spec.ClusterID = otherID },
		"spec.server":    func(p *federation.Peering) { p.Spec.Server = "https://other.example.org" },
		"spec.token":     func(p *federation.Peering) { p.Spec.Token = "another" },
		"spec.resources": func(p *federation.Peering) {
			p.Spec.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		},
		"spec.disconnectTimeoutSeconds": func(p *federation.Peering) { p.Spec.DisconnectTimeoutSeconds = ptr.To[int32](7) },
	} {
		t.Run(field, func(t *testing.T) {
			w := newWorld()
			if _, err := w.post(t, invitation()); err != nil {
				t.Fatal(err)
			}
			before := w.clusters.Writes()
			_, err := w.post(t, invitation(change))
			if !apierrors.IsConflict(err) {
				t.Fatalf("got %v, want Conflict", err)
			}
			var status apierrors.APIStatus
			errors.As(err, &status)
			causes := status.Status().Details.Causes
			if len(causes) != 1 || causes[0].Field != field {
				t.Errorf("got causes %v, want only %s", causes, field)
			}
			if w.clusters.Writes() != before || w.token(t) != secretToken {
				t.Error("a refused POST wrote an object")
			}
		})
	}
}

func TestRefusedPeerStoresNothing(t *testing.T) {
	deletion := metav1.NewTime(metav1.Now().Time)
	existing := &federation.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", UID: "uid-of-milan", DeletionTimestamp: &deletion,
			Finalizers: []string{v1alpha1.Finalizer}},
		Spec: federation.ForeignClusterSpec{Outgoing: federation.PeeringDisabled, Incoming: federation.PeeringDisabled},
	}
	for name, test := range map[string]struct {
		peering *federation.Peering
		name    string
		cluster *federation.ForeignCluster
		fail    error
		code    int32
		message string
	}{
		"another name than in the path": {peering: invitation(func(p *federation.Peering) { p.Name = "rome" }),
			code: http.StatusBadRequest, message: `"rome"`},
		"a name that is too long": {name: strings.Repeat("m", 41), peering: invitation(),
			code: http.StatusUnprocessableEntity, message: "metadata.name"},
		"no server": {peering: invitation(func(p *federation.Peering) { p.Spec.Server = "" }),
			code: http.StatusUnprocessableEntity, message: "spec.server"},
		"a loopback server": {peering: invitation(func(p *federation.Peering) { p.Spec.Server = "https://127.0.0.1" }), code: http.StatusUnprocessableEntity, message: "spec.server"},
		"no token": {peering: invitation(func(p *federation.Peering) { p.Spec.Token = "" }),
			code: http.StatusUnprocessableEntity, message: "spec.token"},
		"a token with a line break": {peering: invitation(func(p *federation.Peering) { p.Spec.Token += "\n" }),
			code: http.StatusUnprocessableEntity, message: "spec.token"},
		"a POST that unpeers": {peering: invitation(func(p *federation.Peering) { p.Spec.Outgoing = federation.PeeringDisabled }), code: http.StatusUnprocessableEntity, message: "spec.outgoing"},
		"a uid for a new ForeignCluster": {peering: invitation(func(p *federation.Peering) { p.UID = "uid" }),
			code: http.StatusConflict, message: "does not exist"},
		"a ForeignCluster that is being deleted": {cluster: existing, peering: invitation(), code: http.StatusTooManyRequests,
			message: "being deleted"},
		"another uid": {cluster: existing,
			peering: invitation(func(p *federation.Peering) { p.UID = types.UID("other") }), code: http.StatusConflict,
			message: "uid-of-milan"},
		"an old resourceVersion": {cluster: existing,
			peering: invitation(func(p *federation.Peering) { p.ResourceVersion = "0" }), code: http.StatusConflict,
			message: "resourceVersion"},
		"a failing store": {peering: invitation(), fail: apierrors.NewTooManyRequests("etcd is busy", 1),
			code: http.StatusTooManyRequests, message: "etcd is busy"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if test.cluster != nil {
				w.clusters.Put(test.cluster)
			}
			w.clusters.BeforeCreate = func() error { return test.fail }
			before := w.clusters.Writes()
			path := test.name
			if path == "" {
				path = "milan"
			}
			_, err := w.Create(request(t), path, test.peering, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			subresourcetest.ExpectStatus(t, err, test.code, test.message)
			if err != nil && strings.Contains(err.Error(), secretToken) {
				t.Errorf("the error contains the token: %v", err)
			}
			if w.clusters.Writes() != before || w.token(t) != "" {
				t.Error("a refused POST is partly stored")
			}
		})
	}
}

func TestPeerDryRunWritesNothing(t *testing.T) {
	w := newWorld()
	fakes.React(w.kube, "create", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		options := action.(clienttesting.CreateActionImpl).CreateOptions
		if len(options.DryRun) == 0 {
			t.Error("the Secret is written")
		}
		return true, action.(clienttesting.CreateAction).GetObject(), nil
	})
	answer, err := w.post(t, invitation(), metav1.DryRunAll)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Spec.Server != "https://milan.example.org:6443" || w.clusters.Writes() != 0 {
		t.Errorf("the answer is %+v after %d writes", answer, w.clusters.Writes())
	}
}

func TestPeerNeverOverwritesAnotherSecret(t *testing.T) {
	for name, test := range map[string]struct {
		kind   corev1.SecretType
		change func(w *world)
	}{
		"of another type": {kind: corev1.SecretTypeOpaque},
		"with another invitation, without a ForeignCluster": {kind: v1alpha1.SecretTypeInvitation},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(secret("other", test.kind))
			if _, err := w.post(t, invitation()); !apierrors.IsConflict(err) {
				t.Errorf("got %v, want Conflict", err)
			}
			if w.token(t) != "other" || w.clusters.Writes() != 0 {
				t.Error("a refused POST wrote an object")
			}
		})
	}
}

func TestPeerRetriesAfterALostRace(t *testing.T) {
	w := newWorld()
	winner := newWorld()
	if _, err := winner.post(t, invitation()); err != nil {
		t.Fatal(err)
	}
	stored, _ := winner.clusters.Stored("milan")
	w.clusters.BeforeCreate = func() error {
		w.clusters.BeforeCreate = nil
		w.clusters.Put(stored)
		return nil
	}
	answer, err := w.post(t, invitation())
	if err != nil {
		t.Fatal(err)
	}
	if answer.UID != stored.UID || w.token(t) != secretToken {
		t.Errorf("the response is %s with token %q, want the stored peering", answer.UID, w.token(t))
	}
}

func TestPeerAddsAnOutgoingPeeringToAnIncomingOne(t *testing.T) {
	w := newWorld()
	w.clusters.Put(&federation.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", UID: "uid", Generation: 1},
		Spec: federation.ForeignClusterSpec{ClusterID: milanID, Outgoing: federation.PeeringDisabled,
			Incoming: federation.PeeringEnabled},
	})
	if _, err := w.post(t, invitation()); err != nil {
		t.Fatal(err)
	}
	stored, _ := w.clusters.Stored("milan")
	if stored.Spec.Outgoing != federation.PeeringEnabled || stored.Spec.Incoming != federation.PeeringEnabled ||
		stored.Generation != 2 {
		t.Errorf("the cluster is %+v", stored.Spec)
	}
	if _, err := w.post(t,
		invitation(func(p *federation.Peering) { p.Spec.ClusterID = otherID })); !apierrors.IsConflict(err) {
		t.Errorf("another cluster with the same name: got %v, want Conflict", err)
	}
}

func TestPeerGetNeverReturnsTheToken(t *testing.T) {
	w := newWorld()
	if _, err := w.Get(request(t), "milan", &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want NotFound", err)
	}
	if _, err := w.post(t, invitation()); err != nil {
		t.Fatal(err)
	}
	obj, err := w.Get(request(t), "milan", &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if token := obj.(*federation.Peering).Spec.Token; token != "" {
		t.Errorf("GET returns the token %q", token)
	}
}
