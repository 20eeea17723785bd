// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

func federationOf(t *testing.T, config *rest.Config) versioned.Interface {
	t.Helper()
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// question describes a request that the authorizer is asked about.
type question struct {
	group, resource, subresource, verb, namespace string
}

func (q question) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%s %s.%s/%s", q.verb, q.resource, q.group, q.subresource), "/") +
		" in " + q.namespace
}

// anybodys reports whether every authenticated user may send the request: reviews of the user's own
// permissions.
func (q question) anybodys() bool {
	return q.verb == "create" && strings.HasPrefix(q.resource, "selfsubject")
}

// kube-apiserver denies a tenant every verb on every resource outside of its namespaces.
func TestATenantGetsNothingOfAnother(t *testing.T) {
	env := framework.Get(t)
	installRoles(t, env)
	a, b := makeTenancy(t, env, "grosseto"), makeTenancy(t, env, "livorno")
	user := env.User(t, a.user, v1alpha1.PeerGroup)
	// The roles of the tenant take effect with a delay. Until then every request would be denied.
	retry(t, func() (any, error) {
		return federationOf(t, user).FederationV1alpha1().ShadowPods(a.remote).List(t.Context(), metav1.ListOptions{})
	})
	places := []string{
		b.tenant, b.remote, b.peer, a.peer, framework.Namespace, framework.InvitationNamespace,
		metav1.NamespaceSystem, metav1.NamespaceDefault, metav1.NamespaceAll,
	}
	_, lists, err := env.Kube.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var questions []question
	kinds := 0
	for _, list := range lists {
		group, _, named := strings.Cut(list.GroupVersion, "/")
		if !named {
			group = ""
		}
		for _, resource := range list.APIResources {
			kinds++
			name, subresource, _ := strings.Cut(resource.Name, "/")
			// Roles can also grant these verbs, which discovery does not list.
			verbs := append(slices.Clone(resource.Verbs), "bind", "escalate", "impersonate", "approve", "sign")
			for _, namespace := range places {
				if !resource.Namespaced && namespace != metav1.NamespaceAll {
					continue
				}
				for _, verb := range verbs {
					questions = append(questions, question{group, name, subresource, verb, namespace})
				}
			}
		}
	}
	if kinds < 80 || len(questions) < 2000 {
		t.Fatalf("discovery returns only %d resources, with %d questions", kinds, len(questions))
	}
	review(t, env, a.user, questions)
	requestAll(t, env, user, b)
}

// review sends a SubjectAccessReview for each question, and fails the test for each that is
// allowed.
func review(t *testing.T, env *framework.Environment, user string, questions []question) {
	t.Helper()
	reviews := env.Kube.AuthorizationV1().SubjectAccessReviews()
	queue := make(chan question)
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for q := range queue {
				review, err := reviews.Create(t.Context(),
					&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
						User: user, Groups: []string{v1alpha1.PeerGroup, "system:authenticated"},
						ResourceAttributes: &authorizationv1.ResourceAttributes{
							Group: q.group, Resource: q.resource, Subresource: q.subresource, Verb: q.verb, Namespace: q.namespace,
						},
					}}, metav1.CreateOptions{})
				switch {
				case err != nil:
					t.Errorf("%s: %v", q, err)
				case review.Status.Allowed && !q.anybodys():
					t.Errorf("%s: %s", q, review.Status.Reason)
				}
			}
		})
	}
	for _, q := range questions {
		queue <- q
	}
	close(queue)
	asking.Wait()
}

// requestAll sends requests for the federation's resources of another tenant. The federation API
// server has an additional authorizer, so reviews by kube-apiserver are not enough.
func requestAll(t *testing.T, env *framework.Environment, user *rest.Config, b tenancy) {
	t.Helper()
	list, err := env.Kube.Discovery().ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	methods := map[string]string{
		"get": http.MethodGet, "list": http.MethodGet, "watch": http.MethodGet, "create": http.MethodPost,
		"update": http.MethodPut, "patch": http.MethodPatch, "delete": http.MethodDelete, "deletecollection": http.MethodDelete,
	}
	sent := 0
	for _, resource := range list.APIResources {
		name, subresource, _ := strings.Cut(resource.Name, "/")
		for _, namespace := range []string{b.tenant, b.remote, b.peer, metav1.NamespaceAll} {
			if resource.Namespaced == (namespace == corev1.NamespaceAll) {
				continue
			}
			for _, verb := range resource.Verbs {
				path := groupPath + "/"
				if resource.Namespaced {
					path += "namespaces/" + namespace + "/"
				}
				path += name
				if subresource != "" || verb == "get" || verb == "update" || verb == "patch" || verb == "delete" {
					path += "/something"
				}
				if subresource != "" {
					path += "/" + subresource
				}
				if verb == "watch" {
					path += "?watch=true"
				}
				for road, config := range map[string]*rest.Config{"the aggregator": user, "the server": env.Server.Client(user)} {
					sent++
					if code, answer := exchange(t, config, methods[verb], path, "application/json",
						[]byte("{}")); code != http.StatusForbidden {
						t.Errorf("%s %s by %s: %d: %.200s", verb, path, road, code, answer)
					}
				}
			}
		}
	}
	if sent < 200 {
		t.Errorf("only %d requests were made", sent)
	}
}
