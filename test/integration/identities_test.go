// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
)

const identitiesGolden = "testdata/identities.golden"

// tenancy has the user and the namespaces of a consumer on its provider, with the bindings that
// controllers create.
type tenancy struct {
	user                 string
	tenant, remote, peer string
}

func makeTenancy(t *testing.T, env *framework.Environment, cluster string) tenancy {
	t.Helper()
	c := tenancy{
		user:   "peer-of-" + cluster,
		tenant: makeNamespaceOf(t, env, tenantOf(cluster), v1alpha1.RoleTenant, cluster),
		remote: makeNamespaceOf(t, env, "remote-of-"+cluster, v1alpha1.RoleRemoteNamespace, cluster),
		peer:   makeNamespaceOf(t, env, peerOf(cluster), v1alpha1.RolePeer, cluster),
	}
	own := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: controllerManager, Namespace: framework.Namespace}
	for _, b := range []struct {
		namespace, role string
		subject         rbacv1.Subject
	}{
		{c.tenant, "federation-tenant", userSubject(c.user)},
		{c.tenant, "federation-tenant-manager", own},
		{c.remote, "federation-remote-namespace", userSubject(c.user)},
		{c.remote, "federation-remote-namespace-manager", own},
		{c.peer, "federation-peer-manager", own},
		{c.peer, "federation-virtual-kubelet-peer", rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName,
			Name: "system:serviceaccounts:" + c.peer}},
	} {
		must(t)(env.Kube.RbacV1().RoleBindings(b.namespace).Create(t.Context(), bindingOf(b.role, b.subject),
			metav1.CreateOptions{}))
	}
	return c
}

// withEverything are chart values that enable all accounts.
var withEverything = []string{"network.enabled=true", "network.gateway.service.enabled=true",
	`network.podCIDRs=["10.244.0.0/16"]`}

// installRoles applies all roles and bindings of the chart with withEverything.
func installRoles(t *testing.T, env *framework.Environment) {
	t.Helper()
	var rights []string
	for _, document := range strings.Split(env.ChartWith(t, withEverything), "\n---\n") {
		for _, kind := range []string{"Namespace", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding",
			"ServiceAccount"} {
			if strings.Contains("\n"+document+"\n", "\nkind: "+kind+"\n") {
				rights = append(rights, document)
			}
		}
	}
	env.Kubectl(t, strings.Join(rights, "\n---\n"), "apply", "-f", "-")
}

// The golden file has the permissions of each identity, according to kube-apiserver's authorizer,
// without the permissions that every authenticated user has.
func TestPeerIdentitySARGolden(t *testing.T) {
	env := framework.Get(t)
	installRoles(t, env)
	c := makeTenancy(t, env, "carrara")
	project := env.MakeNamespace(t)
	const kubelet = "federation-virtual-kubelet-carrara"
	rbac := env.Kube.RbacV1()
	bindEverywhere(t, env, "golden-kubelet", "federation-virtual-kubelet",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: kubelet, Namespace: c.peer})
	offloaded := env.MakeNamespace(t)
	must(t)(rbac.RoleBindings(offloaded).Create(t.Context(), bindingOf("federation-reflection",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: kubelet, Namespace: c.peer}), metav1.CreateOptions{}))
	addresses := bindingOf("federation-addresses",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: kubelet, Namespace: c.peer})
	addresses.RoleRef.Kind = "Role"
	must(t)(rbac.RoleBindings(framework.Namespace).Update(t.Context(), addresses, metav1.UpdateOptions{}))
	must(t)(rbac.RoleBindings(offloaded).Create(t.Context(), bindingOf("federation-export-manager",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: controllerManager, Namespace: framework.Namespace}),
		metav1.CreateOptions{}))
	bindEverywhere(t, env, "golden-admin", "federation-admin", userSubject("golden-admin"))
	must(t)(rbac.RoleBindings(project).Create(t.Context(), bindingOf("federation-edit", userSubject("golden-editor")),
		metav1.CreateOptions{}))
	must(t)(rbac.RoleBindings(project).Create(t.Context(), bindingOf("federation-view", userSubject("golden-viewer")),
		metav1.CreateOptions{}))

	identities := []struct {
		name   string
		config *rest.Config
	}{
		{"a peer", env.User(t, c.user, v1alpha1.PeerGroup)},
		{"the bearer of an invitation", env.ServiceAccount(t, framework.InvitationNamespace, "invitation-golden")},
		{"the API server", env.ServiceAccount(t, framework.Namespace, "federation-apiserver")},
		{"the controller manager", env.ServiceAccount(t, framework.Namespace, controllerManager)},
		{"the identity signer", env.ServiceAccount(t, framework.Namespace, "federation-identity-signer")},
		{"the hook of an uninstallation", env.ServiceAccount(t, framework.Namespace, "federation-uninstall")},
		{"a virtual kubelet", env.ServiceAccount(t, c.peer, kubelet)},
		{"the gateway of the network", env.ServiceAccount(t, framework.Namespace, "federation-gateway")},
		{"a route agent of the network", env.ServiceAccount(t, framework.Namespace, "federation-route")},
		{"an administrator of the federation", env.User(t, "golden-admin")},
		{"an editor of a namespace, beyond the role edit", env.User(t, "golden-editor")},
		{"a viewer of a namespace, beyond the role view", env.User(t, "golden-viewer")},
	}
	places := []struct{ name, namespace string }{
		{"its tenant namespace", c.tenant},
		{"its remote namespace", c.remote},
		{"the peer namespace", c.peer},
		{"the installation namespace", framework.Namespace},
		{"the namespace of invitations", framework.InvitationNamespace},
		{"kube-system", metav1.NamespaceSystem},
		{"its own namespace", project},
		{"an offloaded namespace", offloaded},
	}
	otherNamespace := env.MakeNamespace(t)
	// Every ServiceAccount has these permissions, so they are subtracted.
	basic := rightsOf(t, env.ServiceAccount(t, otherNamespace, "golden-unbound"), otherNamespace)
	produce := func() string {
		var out strings.Builder
		for _, identity := range identities {
			fmt.Fprintf(&out, "# %s\n", identity.name)
			everywhere := minus(rightsOf(t, identity.config, otherNamespace), basic)
			describe(&out, "everywhere", everywhere)
			for _, place := range places {
				describe(&out, "in "+place.name, minus(minus(rightsOf(t, identity.config, place.namespace), basic), everywhere))
			}
			out.WriteString("\n")
		}
		return out.String()
	}
	if *update {
		if err := os.WriteFile(identitiesGolden, []byte(produce()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(identitiesGolden)
	if err != nil {
		t.Fatal(err)
	}
	retry(t, func() (any, error) {
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(produce(), "\n")); diff != "" {
			return nil, fmt.Errorf("permissions differ (-want +got); if it is intended, run with -update:\n%s", diff)
		}
		return nil, nil
	})
}

// rights has the allowed verbs by resource and group. If a permission is limited to a name, the key
// includes the name.
type rights map[string][]string

func rightsOf(t *testing.T, config *rest.Config, namespace string) rights {
	t.Helper()
	review, err := kubeOf(t, config).AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := rights{}
	add := func(key string, verbs []string) {
		for _, verb := range verbs {
			if !slices.Contains(all[key], verb) {
				all[key] = append(all[key], verb)
			}
		}
	}
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				key := strings.TrimPrefix(group+"/"+resource, "/")
				for _, name := range rule.ResourceNames {
					add(key+" "+name, rule.Verbs)
				}
				if len(rule.ResourceNames) == 0 {
					add(key, rule.Verbs)
				}
			}
		}
	}
	for _, rule := range review.Status.NonResourceRules {
		for _, path := range rule.NonResourceURLs {
			add(path, rule.Verbs)
		}
	}
	return all
}

func minus(from, less rights) rights {
	left := rights{}
	for key, verbs := range from {
		for _, verb := range verbs {
			if !slices.Contains(less[key], verb) {
				left[key] = append(left[key], verb)
			}
		}
	}
	return left
}

func describe(out *strings.Builder, where string, all rights) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(out, "%s:\n", where)
	keys := make([]string, 0, len(all))
	for key := range all {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		slices.Sort(all[key])
		fmt.Fprintf(out, "  %s: %s\n", key, strings.Join(all[key], " "))
	}
}

func TestImpersonateSystemGroupsDenied(t *testing.T) {
	env := framework.Get(t)
	installRoles(t, env)
	c := makeTenancy(t, env, "massa")
	for name, config := range map[string]*rest.Config{
		"a peer":                 env.User(t, c.user, v1alpha1.PeerGroup),
		"a bearer":               env.ServiceAccount(t, framework.InvitationNamespace, "invitation-impersonator"),
		"the API server":         env.ServiceAccount(t, framework.Namespace, "federation-apiserver"),
		"the controller manager": env.ServiceAccount(t, framework.Namespace, controllerManager),
		"the identity signer":    env.ServiceAccount(t, framework.Namespace, "federation-identity-signer"),
	} {
		for _, as := range []rest.ImpersonationConfig{
			{UserName: "admin", Groups: []string{"system:masters"}},
			{UserName: "system:kube-controller-manager"},
			{UserName: "system:serviceaccount:liqo:federation-apiserver"},
			{UserName: c.user, Groups: []string{v1alpha1.PeerGroup, "system:masters"}},
		} {
			for road, config := range map[string]*rest.Config{"the aggregator": config,
				"the server": env.Server.Client(config)} {
				config = rest.CopyConfig(config)
				config.Impersonate = as
				_, err := federationOf(t, config).FederationV1alpha1().ForeignClusters().List(t.Context(), metav1.ListOptions{})
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "impersonate") {
					t.Errorf("%s as %+v by %s: got %v", name, as, road, err)
				}
			}
		}
	}
}
