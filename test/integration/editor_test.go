// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"liqo.io/federation/test/integration/framework"
)

// Kubernetes aggregates the roles of the chart into admin, edit and view. The controller that does
// so is not running, so each user is bound to the aggregated role and to the role of the chart.
func TestNamespaceEditorMayOffloadAndReadOnly(t *testing.T) {
	env := framework.Get(t)
	installRoles(t, env)
	project, other := env.MakeNamespace(t), env.MakeNamespace(t)
	c := makeTenancy(t, env, "arezzo")
	rbac := env.Kube.RbacV1()
	for role, into := range map[string][]string{"federation-edit": {"admin", "edit"}, "federation-view": {"view"}} {
		found, err := rbac.ClusterRoles().Get(t.Context(), role, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, whole := range into {
			if found.Labels["rbac.authorization.k8s.io/aggregate-to-"+whole] != "true" {
				t.Errorf("%s is not part of %s", role, whole)
			}
		}
	}
	for user, roles := range map[string][]string{"an-editor": {"edit", "federation-edit"},
		"a-viewer": {"view", "federation-view"}} {
		for _, role := range roles {
			binding := bindingOf(role, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user})
			binding.Name = user + "-" + role
			must(t)(rbac.RoleBindings(project).Create(t.Context(), binding, metav1.CreateOptions{}))
		}
	}
	editor, viewer := env.User(t, "an-editor"), env.User(t, "a-viewer")
	in := func(namespace, tail string) string { return groupPath + "/namespaces/" + namespace + "/" + tail }
	const offload = `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Offload","spec":{}}`
	nameOfAnother := `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Offload",
		"spec":{"namespaceMappingStrategy":"SelectedName","remoteNamespaceName":"` + other + `"}}`
	retry(t, func() (any, error) {
		return federationOf(t, editor).FederationV1alpha1().NamespaceOffloadings(project).List(t.Context(),
			metav1.ListOptions{})
	})
	for _, test := range []struct {
		method, path, body string
		editor, viewer     int
	}{
		{http.MethodPost, in(project, "namespaceoffloadings/offloading/offload"), nameOfAnother, http.StatusForbidden, http.StatusForbidden},
		{http.MethodPost, in(project, "namespaceoffloadings/offloading/offload"), offload, http.StatusCreated, http.StatusForbidden},
		{http.MethodGet, in(project, "namespaceoffloadings/offloading/offload"), "", http.StatusOK, http.StatusOK},
		{http.MethodGet, in(project, "namespaceoffloadings/offloading"), "", http.StatusOK, http.StatusOK},
		{http.MethodGet, in(project, "namespaceoffloadings"), "", http.StatusOK, http.StatusOK},
		{http.MethodPatch, in(project, "namespaceoffloadings/offloading"), `{"spec":{"podOffloadingStrategy":"Local"}}`, http.StatusOK, http.StatusForbidden},
		{http.MethodPatch, in(project, "namespaceoffloadings/offloading/status"), `{"status":{"phase":"Ready"}}`, http.StatusForbidden, http.StatusForbidden},
		{http.MethodDelete, in(project, "namespaceoffloadings/offloading"), "", http.StatusOK, http.StatusForbidden},
		{http.MethodPost, in(other, "namespaceoffloadings/offloading/offload"), offload, http.StatusForbidden, http.StatusForbidden},
		{http.MethodGet, in(other, "namespaceoffloadings/offloading"), "", http.StatusForbidden, http.StatusForbidden},
		{http.MethodGet, groupPath + "/namespaceoffloadings", "", http.StatusForbidden, http.StatusForbidden},
		{http.MethodGet, in(project, "shadowpods"), "", http.StatusForbidden, http.StatusForbidden},
		{http.MethodPost, in(project, "shadowpods"), "{}", http.StatusForbidden, http.StatusForbidden},
		{http.MethodGet, in(project, "namespacemaps"), "", http.StatusForbidden, http.StatusForbidden},
		{http.MethodGet, in(c.peer, "virtualnodes"), "", http.StatusForbidden, http.StatusForbidden},
		{http.MethodGet, in(c.tenant, "resourcerequests"), "", http.StatusForbidden, http.StatusForbidden},
		{http.MethodGet, groupPath + "/foreignclusters", "", http.StatusForbidden, http.StatusForbidden},
		{http.MethodPost, groupPath + "/foreignclusters/milan/peer", "{}", http.StatusForbidden, http.StatusForbidden},
		{http.MethodPost, groupPath + "/peeringtokens", "{}", http.StatusForbidden, http.StatusForbidden},
		{http.MethodGet, groupPath + "/identityrequests", "", http.StatusForbidden, http.StatusForbidden},
	} {
		for _, one := range []struct {
			name   string
			config *rest.Config
			want   int
		}{{"viewer", viewer, test.viewer}, {"editor", editor, test.editor}} {
			if got, answer := exchange(t, one.config, test.method, test.path, "application/json",
				[]byte(test.body)); got != one.want {
				t.Errorf("%s %s by the %s: got %d, want %d: %.200s", test.method, test.path, one.name, got, one.want, answer)
			}
		}
	}
}
