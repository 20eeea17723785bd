// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

// role has the common fields of Role and ClusterRole.
type role struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Rules []rbacv1.PolicyRule `json:"rules"`
}

// roles returns the Roles and ClusterRoles in manifests.
func roles(t *testing.T, manifests string) []role {
	t.Helper()
	var all []role
	for _, document := range strings.Split(manifests, "\n---\n") {
		var one role
		if err := yaml.Unmarshal([]byte(document), &one); err != nil {
			t.Fatalf("%v in %s", err, document)
		}
		if one.Kind == "Role" || one.Kind == "ClusterRole" {
			all = append(all, one)
		}
	}
	return all
}

func TestRBACNoWildcards(t *testing.T) {
	env := framework.Get(t)
	all := roles(t, env.ChartWith(t, withEverything))
	if len(all) < 8 {
		t.Fatalf("the chart has %d roles only", len(all))
	}
	for _, role := range all {
		for i, rule := range role.Rules {
			for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
				if slices.ContainsFunc(list, func(word string) bool { return strings.Contains(word, "*") }) {
					t.Errorf("%s %s, rule %d has a wildcard: %+v", role.Kind, role.Metadata.Name, i, rule)
				}
			}
			if slices.ContainsFunc(rule.Verbs, func(verb string) bool { return verb == "escalate" || verb == "impersonate" }) {
				t.Errorf("%s %s, rule %d allows escalation: %+v", role.Kind, role.Metadata.Name, i, rule)
			}
			if slices.Contains(rule.Verbs, "bind") && len(rule.ResourceNames) == 0 {
				t.Errorf("%s %s, rule %d binds any role: %+v", role.Kind, role.Metadata.Name, i, rule)
			}
		}
	}
}

// The table has each permission of a peer in a remote namespace in a line of its own.
func TestPeerRightsInARemoteNamespace(t *testing.T) {
	env := framework.Get(t)
	var lines []string
	for _, role := range roles(t, env.Chart(t, "rbac-remote-namespace.yaml")) {
		if role.Metadata.Name != "federation-remote-namespace" {
			continue
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				lines = append(lines, fmt.Sprintf("%s/%s: %s", rule.APIGroups[0], resource, strings.Join(rule.Verbs, " ")))
			}
		}
	}
	want := []string{
		"federation.liqo.io/shadowpods: get list watch create update patch delete",
		"federation.liqo.io/shadowpods/stats: get",
		"federation.liqo.io/shadowvolumeclaims: get list watch create update patch delete",
		"federation.liqo.io/shadowendpointslices: get list watch create update delete",
		"/pods: get list watch",
		"metrics.k8s.io/pods: list",
		"/events: list watch",
		"/pods/log: get",
		"/pods/exec: get create",
		"/pods/attach: get create",
		"/pods/portforward: get create",
		"/configmaps: get list watch create update delete",
		"/secrets: get list watch create update delete",
		"/services: get list watch create update delete",
		"networking.k8s.io/ingresses: get list watch create update delete",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("a peer's rights changed (-want +got):\n%s", diff)
	}
}

func TestPeerCannotWriteUnofferedNamespace(t *testing.T) {
	env := framework.Get(t)
	env.Kubectl(t, env.Chart(t, "rbac-remote-namespace.yaml"), "apply", "-f", "-")
	remote, other := env.MakeNamespace(t), env.MakeNamespace(t)
	const name = "peer-of-rbac-test"
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "federation-remote-namespace"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "federation-remote-namespace"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}
	if _, err := env.Kube.RbacV1().RoleBindings(remote).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := env.User(t, name, v1alpha1.PeerGroup)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	federation, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}

	shadow := &v1alpha1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: v1alpha1.ShadowPodSpec{Pod: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "web", Image: "example.com/web"}}, AutomountServiceAccountToken: ptr.To(false),
		}}}
	if _, err := federation.FederationV1alpha1().ShadowPods(remote).Create(t.Context(), shadow,
		metav1.CreateOptions{}); err != nil {
		t.Errorf("creating a shadow pod in the remote namespace: %v", err)
	}
	ordinary := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.PodSpec{Containers: shadow.Spec.Pod.Containers}}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	for what, try := range map[string]func() error{
		"a shadow pod in another namespace": func() error {
			_, err := federation.FederationV1alpha1().ShadowPods(other).Create(t.Context(), shadow, metav1.CreateOptions{})
			return err
		},
		"the status of its shadow pod": func() error {
			_, err := federation.FederationV1alpha1().ShadowPods(remote).Patch(t.Context(), "web",
				"application/merge-patch+json", []byte(`{"status":{"phase":"Failed"}}`), metav1.PatchOptions{}, "status")
			return err
		},
		"a namespace map": func() error {
			_, err := federation.FederationV1alpha1().NamespaceMaps(remote).Create(t.Context(),
				&v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}, metav1.CreateOptions{})
			return err
		},
		"a pod in its remote namespace": func() error {
			_, err := kube.CoreV1().Pods(remote).Create(t.Context(), ordinary, metav1.CreateOptions{})
			return err
		},
		"a pod in another namespace": func() error {
			_, err := kube.CoreV1().Pods(other).Create(t.Context(), ordinary, metav1.CreateOptions{})
			return err
		},
		"a config map in another namespace": func() error {
			_, err := kube.CoreV1().ConfigMaps(other).Create(t.Context(), configMap, metav1.CreateOptions{})
			return err
		},
		"the Secrets of another namespace": func() error {
			_, err := kube.CoreV1().Secrets(other).List(t.Context(), metav1.ListOptions{})
			return err
		},
		"the pods of another namespace": func() error {
			_, err := kube.CoreV1().Pods(other).List(t.Context(), metav1.ListOptions{})
			return err
		},
		"the nodes": func() error {
			_, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			return err
		},
		"a namespace": func() error {
			_, err := kube.CoreV1().Namespaces().Create(t.Context(),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "peer-"}}, metav1.CreateOptions{})
			return err
		},
		"its own role binding": func() error {
			return kube.RbacV1().RoleBindings(remote).Delete(t.Context(), "federation-remote-namespace", metav1.DeleteOptions{})
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v, want Forbidden", what, err)
		}
	}
}
