// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
	"liqo.io/federation/test/placements"
)

const (
	reviewsPath = "/apis/federation.liqo.io/v1alpha1/placementreviews"
	webhook     = "placement-claims.federation.liqo.io"
)

// withClaimPlacement returns the environment with the admission policy, the webhook, and the
// StorageClasses of package placements.
func withClaimPlacement(t *testing.T) *framework.Environment {
	t.Helper()
	env := framework.Get(t)
	env.Kubectl(t, env.Chart(t, "placement.yaml", "placement-claims.yaml"), "apply", "-f", "-")
	for _, class := range placements.StorageClasses() {
		_, err := env.Kube.StorageV1().StorageClasses().Create(t.Context(), class, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	return env
}

// offeredClasses creates a VirtualNode for each provider of package placements, which offers the
// provider's classes, until the test ends.
func offeredClasses(t *testing.T, env *framework.Environment) {
	t.Helper()
	_, federation := clients(t, env)
	peer := makeNamespaceOf(t, env, peerOf("lodi"), v1alpha1.RolePeer, "lodi")
	nodes := federation.FederationV1alpha1().VirtualNodes(peer)
	for id, classes := range placements.Offers {
		node, err := nodes.Create(t.Context(), &v1alpha1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Name: "lodi-" + id[len(id)-1:]},
			Spec: v1alpha1.VirtualNodeSpec{
				ClusterID: id, NodeName: "liqo-lodi-" + id[len(id)-1:],
				Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node.Status.StorageClasses = classes
		must(t)(nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}))
		t.Cleanup(func() {
			if err := nodes.Delete(context.Background(), node.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// createClaim creates a claim and its volume, unless the test case states that they do not exist.
func createClaim(t *testing.T, kube kubernetes.Interface, namespace string, claim placements.Claim) {
	t.Helper()
	if volume := claim.Volume(namespace); volume != nil {
		must(t)(kube.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}))
	}
	if object := claim.Object(namespace); object != nil && !claim.Ephemeral {
		must(t)(kube.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), object, metav1.CreateOptions{}))
	}
}

// kube-apiserver calls the webhook through its Service. The cases are the same as for the function
// placement.Decide.
func TestPodsWithClaimsArePlacedByTheWebhook(t *testing.T) {
	env := withClaimPlacement(t)
	offeredClasses(t, env)
	for _, test := range placements.Cases {
		t.Run(test.Name, func(t *testing.T) {
			namespace := placement(t, env, v1alpha1.NamespaceOffloadingSpec{
				PodOffloadingStrategy: test.Strategy, ClusterSelector: corev1.NodeSelector{NodeSelectorTerms: test.Selector},
			})
			for _, claim := range test.Claims {
				createClaim(t, env.Kube, namespace, claim)
			}
			warnings := &warned{}
			config := rest.CopyConfig(env.Admin)
			config.WarningHandler = warnings
			if test.ByControllers {
				config.Impersonate = rest.ImpersonationConfig{
					UserName: account(framework.Namespace, "federation-controller-manager"),
					Groups:   []string{user.SystemPrivilegedGroup},
				}
			}
			kube, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
			placed, err := kube.CoreV1().Pods(namespace).Create(t.Context(), test.Pod(), options)
			if test.Denied != "" {
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), test.Denied) ||
					!strings.Contains(err.Error(), webhook) {
					t.Errorf("got %v, want it denied with %q", err, test.Denied)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.Nodes, placements.FittingNodes(t, placed)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s\naffinity %+v", diff, placed.Spec.Affinity)
			}
			gate := corev1.PodSchedulingGate{Name: v1alpha1.SchedulingGateMoving}
			if gated := slices.Contains(placed.Spec.SchedulingGates, gate); gated != test.Gated {
				t.Errorf("gated: %v, want %v", gated, test.Gated)
			}
			got := strings.Join(warnings.texts, " ")
			if (got == "") != (test.Warning == "") || !strings.Contains(got, test.Warning) {
				t.Errorf("got the warnings %q, want %q", got, test.Warning)
			}
		})
	}
}

// The StatefulSet controller creates a claim only milliseconds before the pod that mounts it, so
// the webhook must not use an older cache.
func TestClaimIsReadThatIsNoOlderThanItsPod(t *testing.T) {
	env := withClaimPlacement(t)
	namespace := placement(t, env, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	for ordinal := range 20 {
		claim := placements.Claim{Name: fmt.Sprintf("data-db-%d", ordinal), Class: placements.VirtualClass}
		createClaim(t, env.Kube, namespace, claim)
		placed, err := create(t.Context(), env, namespace, placements.Case{Claims: []placements.Claim{claim}}.Pod())
		if err != nil {
			t.Fatal(err)
		}
		if !placements.Fits(t, placed, nodeOf("liqo-milan")) {
			t.Fatalf("the review does not read claim %s: %+v", claim.Name, placed.Spec.Affinity)
		}
	}
}

func TestOnlyPodsWithClaimsOfOffloadedNamespacesNeedTheServer(t *testing.T) {
	env := withClaimPlacement(t)
	offloaded := placement(t, env, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote})
	ordinary := env.MakeNamespace(t)
	env.ServiceAccount(t, ordinary, "default")
	withClaim := placements.Case{Claims: []placements.Claim{{Name: "data"}}}.Pod()

	env.Server.Stop(t, syscall.SIGKILL)
	defer env.Server.Start(t)
	if _, err := create(t.Context(), env, offloaded, withClaim); err == nil || !strings.Contains(err.Error(), webhook) {
		t.Errorf("a pod with a claim of an offloaded namespace: got %v, want it refused by the webhook", err)
	}
	if _, err := create(t.Context(), env, offloaded, pod(nil)); err != nil {
		t.Errorf("a pod without claims of an offloaded namespace: %v", err)
	}
	if _, err := create(t.Context(), env, ordinary, withClaim); err != nil {
		t.Errorf("a pod with a claim of an ordinary namespace: %v", err)
	}
}

// postReview sends an AdmissionReview of a pod with a claim to the server.
func postReview(t *testing.T, config *rest.Config, namespace string) (int, *admissionv1.AdmissionReview, string) {
	t.Helper()
	pod, err := json.Marshal(placements.Case{Claims: []placements.Claim{{Name: "data"}}}.Pod())
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Operation: admissionv1.Create,
			Namespace: namespace, Object: runtime.RawExtension{Raw: pod}, UserInfo: authenticationv1.UserInfo{Username: "jane"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	headers := map[string]string{"Content-Type": runtime.ContentTypeJSON, "Accept": runtime.ContentTypeJSON}
	code, answer := send(t, config, http.MethodPost, reviewsPath, headers, string(body))
	review := &admissionv1.AdmissionReview{}
	if code == http.StatusCreated {
		if err := json.Unmarshal([]byte(answer), review); err != nil {
			t.Fatal(err)
		}
	}
	return code, review, answer
}

func TestReviewIsAnsweredWhileTheStoreIsDown(t *testing.T) {
	env := withClaimPlacement(t)
	etcd := env.StartEtcd(t, 1)
	server := env.StartServer(t, env.MakeDataDir(t), etcd.ServerArgs()...)
	namespace := labelledNamespace(t, env)
	_, federation := clientsOf(t, server.Client(env.Admin))
	offloadings := federation.FederationV1alpha1().NamespaceOffloadings(namespace)
	must(t)(offloadings.Create(t.Context(), &v1alpha1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespaceOffloadingName},
		Spec:       v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote},
	}, metav1.CreateOptions{}))
	createClaim(t, env.Kube, namespace, placements.Claim{Name: "data", Class: placements.RealClass})
	// A server fills its caches when it starts.
	server.Stop(t, syscall.SIGTERM)
	server.Start(t)
	config := server.Client(env.Admin)
	etcd.Kill(t, 0)
	code, review, answer := postReview(t, config, namespace)
	if code != http.StatusCreated {
		t.Fatalf("got %d: %s", code, answer)
	}
	if !review.Response.Allowed || !strings.Contains(string(review.Response.Patch), v1alpha1.LabelType) {
		t.Errorf("the pod is not placed: %s", answer)
	}
	if strings.Contains(answer, "jane") || strings.Contains(answer, "example.com/web") {
		t.Errorf("the answer repeats the request: %s", answer)
	}
	// For a server with an external etcd, the probes of the chart exclude etcd.
	for _, path := range []string{"/livez?exclude=etcd", "/readyz?exclude=etcd&exclude=etcd-readiness"} {
		if code, answer := send(t, config, http.MethodGet, path, nil, ""); code != http.StatusOK {
			t.Errorf("%s: got %d: %s", path, code, answer)
		}
	}
}

func TestOnlyKubeAPIServerMayHavePodsReviewed(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	for name, config := range map[string]*rest.Config{
		"a user":    env.User(t, "jane"),
		"a peer":    env.User(t, thatID, v1alpha1.PeerGroup),
		"anonymous": env.Anonymous(),
	} {
		paths := map[string]*rest.Config{"through kube-apiserver": config, "directly": env.Server.Client(config)}
		for path, config := range paths {
			code, _, answer := postReview(t, config, namespace)
			if code != http.StatusForbidden && code != http.StatusUnauthorized {
				t.Errorf("%s, %s: got %d: %s", name, path, code, answer)
			}
		}
	}
	for _, role := range roles(t, env.ChartWith(t, withEverything)) {
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "placementreviews") {
				t.Errorf("%s %s grants placementreviews", role.Kind, role.Metadata.Name)
			}
		}
	}
}
