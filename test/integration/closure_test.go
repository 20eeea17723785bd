// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
)

const closureGolden = "testdata/closure.golden"

// place is a kind of namespaces. The empty place stands for the whole cluster.
type place string

const (
	placeAll          place = ""
	placeInstallation place = "the installation namespace"
	placeInvitations  place = "the namespace of invitations"
	placeStorage      place = "the storage namespace"
	placeTenant       place = "a tenant namespace"
	placePeer         place = "a peer namespace"
	placeRemote       place = "a remote namespace"
	placeOffloaded    place = "an offloaded namespace"
	placeLabelled     place = "a namespace that has only the label of offloaded ones"
	placeKubeSystem   place = "kube-system"
	placeOther        place = "another namespace"
)

var allPlaces = []place{placeInstallation, placeInvitations, placeStorage, placeTenant, placePeer, placeRemote,
	placeOffloaded, placeLabelled, placeKubeSystem, placeOther}

// Accounts that are no ServiceAccounts of the chart, and what else can be reached.
const (
	kubeletAccount = "a virtual kubelet"
	peerAccount    = "a peer"
	bearerAccount  = "a bearer of an invitation"
	aNode          = "the privileges of a node"
	anyUser        = "any user"
	anyRole        = "any role"
)

// accountsOf returns the accounts of a kind of namespaces.
func accountsOf(p place) string {
	switch p {
	case placePeer:
		return kubeletAccount
	case placeTenant:
		return peerAccount
	case placeInvitations:
		return bearerAccount
	case placeAll:
		return anyUser
	}
	return "the accounts of " + string(p)
}

func secretsOf(p place) string { return strings.TrimSuffix("the Secrets of "+string(p), " of ") }

// binding is a role that the controllers bind, with the only kind of namespaces in which they may bind
// it, and the account that gets it.
type binding struct {
	role   string
	place  place
	holder string
}

// bound has all such roles.
var bound = []binding{
	{"federation-tenant", placeTenant, peerAccount},
	{"federation-tenant-token", placeTenant, peerAccount},
	{"federation-tenant-manager", placeTenant, controllerManager},
	{"federation-peer-manager", placePeer, controllerManager},
	{"federation-virtual-kubelet-peer", placePeer, kubeletAccount},
	{"federation-remote-namespace", placeRemote, peerAccount},
	{"federation-remote-namespace-manager", placeRemote, controllerManager},
	{"federation-reflection", placeOffloaded, kubeletAccount},
	{"federation-export-manager", placeOffloaded, controllerManager},
	{"federation-mover", placeOffloaded, controllerManager},
	{"federation-addresses", placeInstallation, kubeletAccount},
	{"federation-virtual-kubelet", placeAll, kubeletAccount},
}

// outside are the roles that the chart does not contain but binds. They permit reviews of tokens and
// of permissions, and reading one ConfigMap.
var outside = []string{"system:auth-delegator", "extension-apiserver-authentication-reader"}

// ofUsers are the roles that administrators bind to users.
var ofUsers = []string{"federation-admin", "federation-edit", "federation-view", "federation-metrics-reader"}

// edge is a way by which an account reaches another one, Secrets or privileges.
type edge struct{ from, to, way string }

// cut is an edge that RBAC permits, and a policy or the validation of a federation kind refuses.
// attempt is the name of the attempt in the test that shows it; expect fails if the test has no such
// attempt that is refused. left is what remains of the edge.
type cut struct {
	edge
	left          string
	test, attempt string
}

const (
	testStolen  = "TestPoliciesKeepStolenAccountsFromOthers"
	testMovers  = "TestPoliciesKeepTheControllerManagerToTheMoversOfAMove"
	testObjects = "TestPoliciesKeepTheControllerManagerToObjectsOfTheFederation"
	testVolumes = "TestPolicyKeepsTheControllerManagerToVolumesOfTheFederation"
	testLabels  = "TestPoliciesKeepTheAPIServerToTheLabelOfOffloadedNamespaces"
	testTokens  = "TestPoliciesKeepAVirtualKubeletToTheTokensOfItsPods"
	testPeers   = "TestPoliciesKeepPeersWithinTheirRemoteNamespaces/peer-of-policies"
	// This test is in apiserver/apis/federation/validation.
	testShadowPods = "TestShadowPodCannotEscapeToNode"
)

var cuts = []cut{
	{edge{controllerManager, aNode, "creates pods in a remote namespace"}, "",
		testStolen, "the controllers create a privileged pod"},
	{edge{controllerManager, accountsOf(placeRemote), "creates pods in a remote namespace"},
		"account default of a remote namespace", testStolen, "the controllers create a pod of another account"},
	{edge{controllerManager, aNode, "changes pods in a remote namespace"}, "",
		testStolen, "the controllers change a privileged pod"},
	{edge{controllerManager, accountsOf(placeRemote), "changes pods in a remote namespace"}, "",
		testStolen, "the controllers change a pod with a token"},
	{edge{controllerManager, aNode, "adds containers to pods in a remote namespace"}, "",
		testStolen, "the controllers add a privileged container"},
	{edge{controllerManager, accountsOf(placeRemote), "adds containers to pods in a remote namespace"}, "",
		testStolen, "the controllers add a container to a pod with a token"},

	{edge{controllerManager, aNode, "creates pods in an offloaded namespace"}, "",
		testMovers, "creates a pod with the network of its node"},
	{edge{controllerManager, accountsOf(placeOffloaded), "creates pods in an offloaded namespace"}, "",
		testMovers, "creates a pod with a token"},
	{edge{controllerManager, secretsOf(placeOffloaded), "creates pods in an offloaded namespace"}, "",
		testMovers, "creates a pod with another Secret"},
	{edge{controllerManager, aNode, "changes pods in an offloaded namespace"}, "",
		testMovers, "changes the image of a pod of a user"},
	{edge{controllerManager, accountsOf(placeOffloaded), "changes pods in an offloaded namespace"}, "",
		testMovers, "changes the image of a pod of a user"},
	{edge{controllerManager, secretsOf(placeOffloaded), "changes pods in an offloaded namespace"}, "",
		testMovers, "changes the image of a pod of a user"},

	{edge{controllerManager, aNode, "writes Deployments in a peer namespace"}, "",
		testStolen, "the controllers deploy a privileged virtual kubelet"},
	{edge{controllerManager, secretsOf(placePeer), "writes Deployments in a peer namespace"},
		"Secret identity of a peer namespace", testStolen, "the controllers deploy a virtual kubelet with another Secret"},
	{edge{controllerManager, kubeletAccount, "creates Secrets with tokens in a peer namespace"}, "",
		testStolen, "the controllers request a token of another account"},
	{edge{v1alpha1.GatewayName, accountsOf(placeInstallation),
		"creates Secrets with tokens in the installation namespace"}, "",
		testStolen, "the gateway requests a token of another account"},

	{edge{controllerManager, aNode, "creates namespaces"}, "",
		testObjects, "makes a remote namespace for privileged pods"},
	{edge{controllerManager, aNode, "changes namespaces"}, "", testObjects, "relaxes Pod Security in a namespace"},
	{edge{controllerManager, aNode, "creates PersistentVolumes"}, "", testVolumes, "creates another volume"},
	{edge{controllerManager, accountsOf(placeAll), "creates CSIDrivers"}, "",
		testStolen, "the controllers create a CSIDriver that gets tokens"},

	{edge{"federation-apiserver", aNode, "changes namespaces"}, "", testLabels, "sets other labels"},
	{edge{"federation-apiserver", bearerAccount, "creates Secrets with tokens in the namespace of invitations"}, "",
		testStolen, "the API server requests a token of another account"},

	{edge{kubeletAccount, accountsOf(placeOffloaded), "requests tokens in an offloaded namespace"},
		"the accounts of an offloaded namespace with pods on its virtual node", testTokens, "one of a local pod"},

	{edge{peerAccount, aNode, "writes ShadowPods in a remote namespace"}, "",
		testShadowPods, "as a privileged container"},
	{edge{peerAccount, accountsOf(placeRemote), "writes ShadowPods in a remote namespace"}, "",
		testShadowPods, "as a service account"},
	{edge{controllerManager, aNode, "writes ShadowPods in a remote namespace"}, "",
		testShadowPods, "as a privileged container"},
	{edge{controllerManager, accountsOf(placeRemote), "writes ShadowPods in a remote namespace"}, "",
		testShadowPods, "as a service account"},
	{edge{peerAccount, accountsOf(placeRemote), "creates Secrets with tokens in a remote namespace"}, "",
		testPeers, "a secret that becomes a token"},
}

// bindAttempt returns the name of the attempt of the controller manager to bind a role to an account
// that may have it.
func bindAttempt(role string, p place) string {
	return strings.TrimSpace(fmt.Sprintf("the controllers bind %s in %s", role, cmp.Or(p, "the whole cluster")))
}

// grants has the rules of each account by place.
type grants map[string]map[place][]rbacv1.PolicyRule

func (g grants) add(account string, p place, rules []rbacv1.PolicyRule) {
	if g[account] == nil {
		g[account] = map[place][]rbacv1.PolicyRule{}
	}
	g[account][p] = append(g[account][p], rules...)
}

// in returns the rules of an account that are in force in a place.
func (g grants) in(account string, p place) ruleset {
	if p == placeAll {
		return g[account][placeAll]
	}
	return slices.Concat(g[account][placeAll], g[account][p])
}

type ruleset []rbacv1.PolicyRule

// may reports whether the rules permit one of the verbs for a resource, and for which names; nil
// means all names.
func (rules ruleset) may(group, resource string, verbs ...string) (names []string, ok bool) {
	matches := func(have []string, want ...string) bool {
		return slices.ContainsFunc(have, func(one string) bool { return one == "*" || slices.Contains(want, one) })
	}
	for _, rule := range rules {
		if !matches(rule.APIGroups, group) || !matches(rule.Resources, resource) || !matches(rule.Verbs, verbs...) {
			continue
		}
		if len(rule.ResourceNames) == 0 {
			return nil, true
		}
		names, ok = append(names, rule.ResourceNames...), true
	}
	slices.Sort(names)
	return slices.Compact(names), ok
}

func (rules ruleset) permit(group, resource string, verbs ...string) bool {
	_, ok := rules.may(group, resource, verbs...)
	return ok
}

// impersonate are the verbs that permit requests in the name of another user.
var impersonate = []string{"impersonate", "impersonate:user-info", "impersonate:serviceaccount",
	"impersonate:arbitrary-node", "impersonate:associated-node"}

// controllersOfPods are the kinds whose controllers create pods.
var controllersOfPods = []struct{ group, resource, kind string }{
	{"apps", "deployments", "Deployments"}, {"apps", "daemonsets", "DaemonSets"}, {"apps", "replicasets", "ReplicaSets"},
	{"apps", "statefulsets", "StatefulSets"}, {"batch", "jobs", "Jobs"}, {"batch", "cronjobs", "CronJobs"},
	{"", "replicationcontrollers", "ReplicationControllers"}, {"", "podtemplates", "PodTemplates"},
}

// ways calls reach for what the rules reach in a place.
func (rules ruleset) ways(p place, reach func(to, way string)) {
	all := func(way string) {
		for _, to := range []string{accountsOf(p), secretsOf(p), aNode} {
			reach(to, way)
		}
	}
	in := " in " + string(p)
	if rules.permit("", "pods", "create") {
		all("creates pods" + in)
	}
	if rules.permit("", "pods", "update", "patch") {
		all("changes pods" + in)
	}
	if rules.permit("", "pods/ephemeralcontainers", "update", "patch") {
		all("adds containers to pods" + in)
	}
	// The API serves ShadowPods in remote namespaces only.
	if p == placeRemote && rules.permit("federation.liqo.io", "shadowpods", "create", "update", "patch") {
		all("writes ShadowPods" + in)
	}
	for _, kind := range controllersOfPods {
		if rules.permit(kind.group, kind.resource, "create", "update", "patch") {
			all("writes " + kind.kind + in)
		}
	}
	if rules.permit("", "pods/exec", "get", "create") || rules.permit("", "pods/attach", "get", "create") {
		reach(accountsOf(p), "executes commands in pods"+in)
		reach(secretsOf(p), "executes commands in pods"+in)
	}
	if names, ok := rules.may("", "secrets", "get", "list", "watch"); ok {
		for _, name := range names {
			reach(fmt.Sprintf("Secret %s of %s", name, p), "reads it")
		}
		if names == nil {
			reach(secretsOf(p), "reads them")
		}
		if rules.permit("", "secrets", "create", "update", "patch") {
			reach(accountsOf(p), "creates Secrets with tokens"+in)
		}
	}
	if rules.permit("", "serviceaccounts/token", "create") {
		reach(accountsOf(p), "requests tokens"+in)
	}
	if rules.permit("rbac.authorization.k8s.io", "roles", "escalate") {
		reach(anyRole, "escalates roles"+in)
	}
	if names, ok := rules.may("", "serviceaccounts", impersonate...); ok {
		reach(accountsOf(p), "impersonates "+strings.Join(append(names, "accounts"), ", ")+in)
	}
}

// clusterWays calls reach for what the rules reach in the whole cluster.
func (rules ruleset) clusterWays(reach func(to, way string)) {
	write := []string{"create", "update", "patch"}
	const rbac = "rbac.authorization.k8s.io"
	if rules.permit("", "nodes/proxy", "get", "create") {
		reach(aNode, "sends requests to kubelets")
	}
	if rules.permit("", "namespaces", "create") {
		reach(aNode, "creates namespaces")
	}
	if rules.permit("", "namespaces", "update", "patch") {
		reach(aNode, "changes namespaces")
	}
	if rules.permit("", "persistentvolumes", "create") {
		reach(aNode, "creates PersistentVolumes")
	}
	if rules.permit("storage.k8s.io", "csidrivers", write...) {
		reach(accountsOf(placeAll), "creates CSIDrivers")
	}
	if rules.permit(rbac, "clusterroles", "escalate") {
		reach(anyRole, "escalates ClusterRoles")
	}
	for _, kind := range []string{"users", "groups", "uids", "userextras", "serviceaccounts", "nodes"} {
		if rules.permit("", kind, impersonate...) || rules.permit("authentication.k8s.io", kind, impersonate...) {
			reach(anyUser, "impersonates "+kind)
		}
	}
	if rules.permit("certificates.k8s.io", "certificatesigningrequests/approval", "update", "patch") &&
		rules.permit("certificates.k8s.io", "signers", "approve") {
		reach(anyUser, "approves client certificates")
	}
	if rules.permit("certificates.k8s.io", "signers", "sign") {
		reach(anyUser, "signs client certificates")
	}
	for _, resource := range []string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
		"mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"validatingwebhookconfigurations"} {
		if rules.permit("admissionregistration.k8s.io", resource, append(write, "delete", "deletecollection")...) {
			reach(anyRole, "writes "+resource)
		}
	}
	if rules.permit("apiregistration.k8s.io", "apiservices", write...) {
		reach(anyUser, "writes APIServices")
	}
	if rules.permit("apiextensions.k8s.io", "customresourcedefinitions", write...) {
		reach(anyRole, "writes CustomResourceDefinitions")
	}
	if rules.permit("federation.liqo.io", "identityrequests", "create") {
		reach(peerAccount, "requests an identity")
	}
}

// binds returns the roles that the rules permit to bind.
func (rules ruleset) binds() (roles []string) {
	const rbac = "rbac.authorization.k8s.io"
	for _, binding := range []string{"rolebindings", "clusterrolebindings"} {
		if !rules.permit(rbac, binding, "create", "update", "patch") {
			continue
		}
		for _, resource := range []string{"roles", "clusterroles"} {
			names, ok := rules.may(rbac, resource, "bind")
			if ok && names == nil {
				names = []string{anyRole}
			}
			roles = append(roles, names...)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// manifest has the fields of a role, a binding or a ServiceAccount.
type manifest struct {
	Kind     string              `json:"kind"`
	Metadata metav1.ObjectMeta   `json:"metadata"`
	Rules    []rbacv1.PolicyRule `json:"rules"`
	RoleRef  rbacv1.RoleRef      `json:"roleRef"`
	Subjects []rbacv1.Subject    `json:"subjects"`
}

// placeOf returns the place of a namespace in the rendered chart.
func placeOf(t *testing.T, namespace string) place {
	t.Helper()
	known := map[string]place{
		"": placeAll, framework.Namespace: placeInstallation, framework.InvitationNamespace: placeInvitations,
		"liqo-storage": placeStorage, metav1.NamespaceSystem: placeKubeSystem,
	}
	p, ok := known[namespace]
	if !ok {
		t.Fatalf("the chart has a role or a binding in namespace %s", namespace)
	}
	return p
}

// holderOf returns the account that a subject of the chart names.
func holderOf(t *testing.T, subject rbacv1.Subject) string {
	t.Helper()
	switch {
	case subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == framework.Namespace:
		return subject.Name
	case subject.Kind == rbacv1.GroupKind && subject.Name == "system:serviceaccounts:"+framework.InvitationNamespace:
		return bearerAccount
	}
	t.Fatalf("the chart binds a role to %+v", subject)
	return ""
}

// chartGrants returns the ServiceAccounts of the chart, and the rules of all accounts, by the
// bindings of the chart and those that the controllers create.
func chartGrants(t *testing.T, env *framework.Environment) (accounts []string, all grants) {
	t.Helper()
	all = grants{kubeletAccount: {}, peerAccount: {}, bearerAccount: {}}
	rules, inUse := map[string][]rbacv1.PolicyRule{}, slices.Clone(ofUsers)
	var bindings []manifest
	for _, document := range strings.Split(env.ChartWith(t, withEverything), "\n---\n") {
		var one manifest
		if err := yaml.Unmarshal([]byte(document), &one); err != nil {
			t.Fatalf("%v in %s", err, document)
		}
		switch one.Kind {
		case "ServiceAccount":
			accounts = append(accounts, one.Metadata.Name)
			all.add(one.Metadata.Name, placeAll, nil)
		case "Role", "ClusterRole":
			rules[one.Metadata.Namespace+"/"+one.Metadata.Name] = one.Rules
		case "RoleBinding", "ClusterRoleBinding":
			bindings = append(bindings, one)
		}
	}
	for _, b := range bindings {
		key := "/" + b.RoleRef.Name
		if b.RoleRef.Kind == "Role" {
			key = b.Metadata.Namespace + key
		}
		inUse = append(inUse, b.RoleRef.Name)
		if _, ok := rules[key]; !ok && !slices.Contains(outside, b.RoleRef.Name) {
			t.Errorf("the chart binds %s, which this test does not know", b.RoleRef.Name)
		}
		for _, subject := range b.Subjects {
			all.add(holderOf(t, subject), placeOf(t, b.Metadata.Namespace), rules[key])
		}
	}
	for _, b := range bound {
		inUse = append(inUse, b.role)
		role, ok := rules["/"+b.role]
		if b.place == placeInstallation {
			role, ok = rules[framework.Namespace+"/"+b.role]
		}
		if !ok {
			t.Errorf("the chart does not have the role %s", b.role)
		}
		all.add(b.holder, b.place, role)
	}
	for key := range rules {
		if _, name, _ := strings.Cut(key, "/"); !slices.Contains(inUse, name) {
			t.Errorf("this test does not know to which accounts the role %s is bound", name)
		}
	}
	return accounts, all
}

// edges returns all edges of an account, sorted, without those to itself.
func (g grants) edges(account string) (all []edge) {
	reach := func(to, way string) {
		if e := (edge{account, to, way}); to != account && !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	g.in(account, placeAll).clusterWays(reach)
	for _, p := range allPlaces {
		g.in(account, p).ways(p, reach)
	}
	slices.SortFunc(all, func(a, b edge) int { return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.way, b.way)) })
	return all
}

// closure returns what an account reaches by its own edges and by those of all accounts that it
// reaches, sorted.
func (g grants) closure(account string) []string {
	reached := map[string]bool{}
	var visit func(string)
	visit = func(from string) {
		for _, e := range g.edges(from) {
			to := e.to
			if i := cutOf(e); i >= 0 {
				to = cuts[i].left
			}
			if to != "" && to != account && !reached[to] {
				reached[to] = true
				visit(to)
			}
		}
	}
	visit(account)
	return slices.Sorted(maps.Keys(reached))
}

// cutOf returns the index of the cut of an edge, and -1 if no policy refuses it.
func cutOf(e edge) int { return slices.IndexFunc(cuts, func(c cut) bool { return c.edge == e }) }

// The golden file has, for each account of the product, the accounts, Secrets and privileges that it
// reaches by its permissions. A line with "refused" is a way that RBAC permits, with the attempt that
// shows that it is refused. The pods that move volumes have no account.
func TestClosureOfAccounts(t *testing.T) {
	env := framework.Get(t)
	accounts, all := chartGrants(t, env)
	accounts = append(accounts, kubeletAccount, peerAccount, bearerAccount)
	var out strings.Builder
	used := map[int]bool{}
	for _, account := range accounts {
		fmt.Fprintf(&out, "# %s\n", account)
		for _, e := range all.edges(account) {
			i := cutOf(e)
			if i < 0 {
				fmt.Fprintf(&out, "%s -> %s: %s\n", account, e.to, e.way)
				continue
			}
			used[i] = true
			if cuts[i].left != "" {
				fmt.Fprintf(&out, "%s -> %s: %s\n", account, cuts[i].left, e.way)
			}
			fmt.Fprintf(&out, "refused: %s -> %s: %s (%s, %q)\n", account, e.to, e.way, cuts[i].test, cuts[i].attempt)
		}
		for _, role := range all.in(account, placeAll).binds() {
			i := slices.IndexFunc(bound, func(b binding) bool { return b.role == role })
			if i < 0 || account != controllerManager {
				t.Errorf("%s binds the role %s, of which this test does not know the holder", account, role)
				continue
			}
			holder := bound[i].holder
			if holder == account {
				holder = "itself"
			}
			fmt.Fprintf(&out, "%s binds %s to %s in %s only\n", account, role, holder,
				cmp.Or(bound[i].place, "the whole cluster"))
		}
		fmt.Fprintf(&out, "in all: %s\n\n", cmp.Or(strings.Join(all.closure(account), "; "), "nothing"))
	}
	for i, c := range cuts {
		if !used[i] {
			t.Errorf("%s no longer %s, so that no policy has to refuse it", c.from, c.way)
		}
	}
	if *update {
		if err := os.WriteFile(closureGolden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(closureGolden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")); diff != "" {
		t.Errorf("accounts reach others than before (-want +got); if it is intended, run with -update:\n%s", diff)
	}
}

// No account gets the privileges of a node. Only the identity signer becomes another user, and no
// account becomes an account of the chart.
func TestNoAccountReachesAnotherOfTheChart(t *testing.T) {
	env := framework.Get(t)
	accounts, all := chartGrants(t, env)
	readable := map[string][]string{
		controllerManager: {
			"the Secrets of the namespace of invitations",
			"Secret identity of a peer namespace", "the Secrets of a remote namespace", "the Secrets of an offloaded namespace",
		},
		"federation-apiserver": {"the Secrets of the namespace of invitations", "the Secrets of a remote namespace"},
		"federation-gateway":   {"Secret federation-wireguard of the installation namespace"},
		kubeletAccount:         {"the Secrets of an offloaded namespace"},
		peerAccount:            {"the Secrets of a remote namespace"},
		bearerAccount:          {"the Secrets of a remote namespace"},
	}
	for _, account := range slices.Concat(accounts, []string{kubeletAccount, peerAccount, bearerAccount}) {
		for _, to := range all.closure(account) {
			switch {
			case to == anyUser && account == "federation-identity-signer":
			case to == aNode, to == anyUser, to == anyRole, to == accountsOf(placeInstallation), slices.Contains(accounts, to):
				t.Errorf("%s reaches %s", account, to)
			case strings.Contains(to, "Secret") && !slices.Contains(readable[account], to):
				t.Errorf("%s reads %s", account, to)
			}
		}
	}
}
