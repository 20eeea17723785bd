// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

var reviewsMetric = regexp.MustCompile(`(?m)^apiserver_delegated_authz_request_total\{code="201"\} (\d+)$`)

// reviews returns the number of SubjectAccessReviews that a server has sent to kube-apiserver.
func reviews(t *testing.T, env *framework.Environment, server *framework.Server) int {
	t.Helper()
	code, body := send(t, server.Client(env.Admin), http.MethodGet, "/metrics", nil, "")
	if code != http.StatusOK {
		t.Fatalf("got %d", code)
	}
	match := reviewsMetric.FindStringSubmatch(body)
	if match == nil {
		return 0
	}
	count, err := strconv.Atoi(match[1])
	if err != nil {
		t.Fatal(err)
	}
	return count
}

func TestOneReviewCoversEveryObjectOfANamespace(t *testing.T) {
	env := framework.Get(t)
	server := env.StartServer(t, env.MakeDataDir(t), "--authorization-webhook-cache-authorized-ttl=5m")
	namespace := env.MakeNamespace(t)
	env.Grant(t, "busy", namespace,
		rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"namespacemaps"},
			Verbs: []string{"create", "get"}})
	client, err := versioned.NewForConfig(server.Client(env.User(t, "busy")))
	if err != nil {
		t.Fatal(err)
	}
	maps := client.FederationV1alpha1().NamespaceMaps(namespace)
	// The new roles take effect with a delay.
	retry(t, func() (any, error) {
		return maps.Create(t.Context(), &v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "map-0"}},
			metav1.CreateOptions{})
	})

	before := reviews(t, env, server)
	const objects = 15
	for i := 1; i < objects; i++ {
		name := fmt.Sprintf("map-%d", i)
		if _, err := maps.Create(t.Context(), &v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := maps.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := reviews(t, env, server) - before; got != 1 {
		t.Errorf("sent %d reviews for %d objects, want 1, for the first get", got, objects)
	}
}
