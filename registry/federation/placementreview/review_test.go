// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placementreview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	federationfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/generated/informers/externalversions"
	"liqo.io/federation/test/fakes"
	"liqo.io/federation/test/placements"
)

const (
	shop       = "shop"
	controller = "system:serviceaccount:liqo:federation-controller-manager"
)

// fixture is the resource placementreviews, with fake clients that it reads from.
type fixture struct {
	*REST
	kube       *fake.Clientset
	federation *federationfake.Clientset
}

// newFixture returns the resource in a cluster with these claims and the VirtualNodes of placements.Offers. Namespace
// shop is offloaded with the strategy.
func newFixture(t *testing.T, strategy v1alpha1.PodOffloadingStrategy, claims ...placements.Claim) fixture {
	t.Helper()
	var objects []runtime.Object
	for _, class := range placements.StorageClasses() {
		objects = append(objects, class)
	}
	for _, claim := range claims {
		if object := claim.Object(shop); object != nil && !claim.Ephemeral {
			objects = append(objects, object)
		}
		if volume := claim.Volume(shop); volume != nil {
			objects = append(objects, volume)
		}
	}
	federation := []runtime.Object{&v1alpha1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: v1alpha1.NamespaceOffloadingName},
		Spec:       v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: strategy},
	}}
	for id, classes := range placements.Offers {
		for i := range 2 {
			federation = append(federation, &v1alpha1.VirtualNode{
				ObjectMeta: metav1.ObjectMeta{Namespace: "peer-" + id, Name: fmt.Sprintf("%s-%d", id, i)},
				Spec:       v1alpha1.VirtualNodeSpec{ClusterID: id},
				Status:     v1alpha1.VirtualNodeStatus{StorageClasses: classes},
			})
		}
	}
	kube := fake.NewClientset(objects...)
	client := federationfake.NewClientset(federation...)
	informers := externalversions.NewSharedInformerFactory(client, 0)
	resource := New(NewReader(kube, client, informers, "liqo"))
	informers.StartWithContext(t.Context())
	informers.WaitForCacheSync(t.Context().Done())
	return fixture{resource, kube, client}
}

func requestFor(t *testing.T, pod *corev1.Pod, user string) *admissionv1.AdmissionRequest {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return &admissionv1.AdmissionRequest{
		UID: "1", Resource: pods, Operation: admissionv1.Create, Namespace: shop,
		Object: runtime.RawExtension{Raw: raw}, UserInfo: authenticationv1.UserInfo{Username: user},
	}
}

func (f fixture) review(t *testing.T, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionReview, error) {
	t.Helper()
	answer, err := f.Create(t.Context(), &admissionv1.AdmissionReview{Request: request}, nil, &metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return answer.(*admissionv1.AdmissionReview), nil
}

func TestPodIsPlacedByItsClaims(t *testing.T) {
	data := placements.Claim{Name: "data", Class: placements.VirtualClass}
	with := func(change func(*placements.Claim)) placements.Claim {
		claim := data
		change(&claim)
		return claim
	}
	for _, test := range []struct {
		name    string
		claim   placements.Claim
		user    string
		change  func(*corev1.Pod)
		paths   []string
		denied  bool
		warning string
	}{
		{name: "an unbound claim", claim: data, paths: []string{"/spec/tolerations"}},
		{name: "a claim of another class", claim: with(func(c *placements.Claim) { c.Class = placements.RealClass }),
			paths: affinityPaths},
		{name: "a claim of an unknown class", claim: with(func(c *placements.Claim) { c.Class = placements.UnknownClass }),
			paths: affinityPaths},
		{name: "a claim without a class", claim: with(func(c *placements.Claim) { c.Class = "" }), paths: affinityPaths},
		{name: "local data", claim: with(func(c *placements.Claim) { c.Data = placements.LocalData }), paths: affinityPaths},
		{name: "data on a provider", claim: with(func(c *placements.Claim) { c.Data = placements.Milan }),
			paths: []string{"/spec/tolerations"}},
		{name: "no claim", claim: with(func(c *placements.Claim) { c.Missing = true }), paths: affinityPaths,
			warning: `"data" does not exist`},
		{name: "an ephemeral volume", claim: with(func(c *placements.Claim) { c.Ephemeral = true }),
			paths: []string{"/spec/tolerations"}},
		{name: "a class of two providers", claim: with(func(c *placements.Claim) { c.RemoteClass = "fast" }),
			paths: append([]string{"/spec/tolerations"}, affinityPaths...)},
		{name: "a claim that is moved", claim: with(func(c *placements.Claim) { c.Move = "m1" }),
			paths: []string{"/spec/tolerations", "/spec/schedulingGates"}},
		{name: "a mover", claim: with(func(c *placements.Claim) { c.Move = "m1" }), user: controller, change: ofMove},
		{name: "a pod with the label of a mover", claim: with(func(c *placements.Claim) { c.Move = "m1" }), user: "jane",
			change: ofMove, paths: []string{"/spec/tolerations", "/spec/schedulingGates"}},
		{name: "a pod on a node by name", claim: with(func(c *placements.Claim) { c.Move = "m1" }), denied: true,
			change: func(pod *corev1.Pod) { pod.Spec.NodeName = "worker" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, v1alpha1.LocalAndRemote, test.claim)
			pod := placements.Case{Claims: []placements.Claim{test.claim}, Change: test.change}.Pod()
			review, err := f.review(t, requestFor(t, pod, test.user))
			if err != nil {
				t.Fatal(err)
			}
			if review.Request != nil {
				t.Error("the response repeats the request")
			}
			response := review.Response
			if response.UID != "1" || response.Allowed == test.denied {
				t.Errorf("got %+v", response)
			}
			if test.denied {
				if response.Result.Code != http.StatusForbidden || !strings.Contains(response.Result.Message, "move m1") {
					t.Errorf("got %+v", response.Result)
				}
				return
			}
			if warned := strings.Join(response.Warnings, " "); (warned == "") != (test.warning == "") ||
				!strings.Contains(warned, test.warning) {
				t.Errorf("got the warnings %q, want %q", warned, test.warning)
			}
			var paths []string
			if response.Patch != nil {
				var patch []placement.Operation
				if err := json.Unmarshal(response.Patch, &patch); err != nil {
					t.Fatal(err)
				}
				for _, operation := range patch {
					paths = append(paths, operation.Path)
				}
				if response.PatchType == nil || *response.PatchType != admissionv1.PatchTypeJSONPatch {
					t.Errorf("the patch is of type %v", response.PatchType)
				}
			}
			if diff := cmp.Diff(test.paths, paths); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

var affinityPaths = []string{
	"/spec/affinity", "/spec/affinity/nodeAffinity",
	"/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution",
}

func ofMove(pod *corev1.Pod) { pod.Labels = map[string]string{"storage.liqo.io/move": "m1"} }

func TestClassOfSeveralVirtualNodesNamesTheirClusterOnce(t *testing.T) {
	claim := placements.Claim{Name: "data", Class: placements.VirtualClass, RemoteClass: "slow"}
	f := newFixture(t, v1alpha1.Remote, claim)
	review, err := f.review(t, requestFor(t, placements.Case{Claims: []placements.Claim{claim}}.Pod(), ""))
	if err != nil {
		t.Fatal(err)
	}
	if want := `"values":["` + placements.Milan + `","` + placements.Turin +
		`"]`; !strings.Contains(string(review.Response.Patch), want) {
		t.Errorf("got the patch %s, want %s in it", review.Response.Patch, want)
	}
}

func TestMalformedReviewsAreRefused(t *testing.T) {
	f := newFixture(t, v1alpha1.LocalAndRemote)
	many := placements.Pod(nil)
	for i := range maxClaims + 1 {
		many.Spec.Volumes = append(many.Spec.Volumes, placements.Claim{Name: fmt.Sprintf("data-%d", i)}.Mount())
	}
	for name, change := range map[string]func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionRequest{
		"no request": func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionRequest { return nil },
		"another resource": func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionRequest {
			r.Resource.Resource = "secrets"
			return r
		},
		"a subresource": func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionRequest {
			r.SubResource = "eviction"
			return r
		},
		"an update": func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionRequest {
			r.Operation = admissionv1.Update
			return r
		},
		"no namespace": func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionRequest {
			r.Namespace = ""
			return r
		},
		"no pod": func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionRequest {
			r.Object.Raw = []byte(`{"spec":{"nodeName":"secret",`)
			return r
		},
		"too many claims": func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionRequest {
			return requestFor(t, many, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.review(t, change(requestFor(t, placements.Pod(nil), "")))
			if !apierrors.IsBadRequest(err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestPodIsRefusedWhileSomethingCannotBeRead(t *testing.T) {
	claim := placements.Claim{Name: "data", Class: placements.VirtualClass, Data: placements.Milan}
	for _, resource := range []string{"persistentvolumeclaims", "persistentvolumes", "storageclasses"} {
		t.Run(resource, func(t *testing.T) {
			f := newFixture(t, v1alpha1.LocalAndRemote, claim)
			fakes.React(f.kube, "get", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("no route to host")
			})
			_, err := f.review(t, requestFor(t, placements.Case{Claims: []placements.Claim{claim}}.Pod(), ""))
			if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "no route to host") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestPodIsRefusedUntilNamespaceOffloadingsAreCached(t *testing.T) {
	client := federationfake.NewClientset()
	informers := externalversions.NewSharedInformerFactory(client, 0)
	f := fixture{REST: New(NewReader(fake.NewClientset(), client, informers, "liqo"))}
	if _, err := f.review(t, requestFor(t, placements.Pod(nil), "")); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v", err)
	}
}

func TestPodOfANamespaceWithoutNamespaceOffloadingIsDenied(t *testing.T) {
	f := newFixture(t, v1alpha1.LocalAndRemote)
	request := requestFor(t, placements.Pod(nil), "")
	request.Namespace = "another"
	review, err := f.review(t, request)
	if err != nil {
		t.Fatal(err)
	}
	if review.Response.Allowed || !strings.Contains(review.Response.Result.Message, "NamespaceOffloading") {
		t.Errorf("got %+v", review.Response)
	}
}

func TestNamespaceOffloadingThatIsNotCachedIsRead(t *testing.T) {
	f := newFixture(t, v1alpha1.LocalAndRemote)
	request := requestFor(t, placements.Pod(nil), "")
	request.Namespace = "another"
	answer := func(offloading *v1alpha1.NamespaceOffloading, err error) {
		fakes.React(f.federation, "get", "namespaceoffloadings", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, offloading, err
		})
	}
	answer(&v1alpha1.NamespaceOffloading{}, nil)
	if review, err := f.review(t, request); err != nil || !review.Response.Allowed {
		t.Errorf("got %+v, %v", review, err)
	}
	answer(nil, errors.New("the store is down"))
	if _, err := f.review(t, request); !apierrors.IsInternalError(err) {
		t.Errorf("got %v", err)
	}
}

func TestRefusedReviewHasNoResponse(t *testing.T) {
	f := newFixture(t, v1alpha1.LocalAndRemote)
	refused := errors.New("refused")
	review := &admissionv1.AdmissionReview{Request: requestFor(t, placements.Pod(nil), "")}
	validate := func(context.Context, runtime.Object) error { return refused }
	if _, err := f.Create(t.Context(), review, validate, &metav1.CreateOptions{}); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

func TestEachClaimIsReadOnce(t *testing.T) {
	claim := placements.Claim{Name: "data", Class: placements.VirtualClass}
	f := newFixture(t, v1alpha1.LocalAndRemote, claim, placements.Claim{Name: "logs", Class: placements.VirtualClass})
	pod := placements.Case{Claims: []placements.Claim{claim, {Name: "logs"}, claim}}.Pod()
	if _, err := f.review(t, requestFor(t, pod, "")); err != nil {
		t.Fatal(err)
	}
	var read []string
	for _, action := range f.kube.Actions() {
		read = append(read, action.GetResource().Resource+"/"+action.(clienttesting.GetAction).GetName())
	}
	want := []string{"persistentvolumeclaims/data", "storageclasses/liqo", "persistentvolumeclaims/logs"}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}
