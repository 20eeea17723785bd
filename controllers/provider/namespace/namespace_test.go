// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestRemoteNamespacesFollowTheNamespaceMap(t *testing.T) {
	ofParis := remoteNamespace("bakery", "bakery")
	ofParis.Labels[v1alpha1.LabelForeignCluster] = "paris"
	earlier := remoteNamespace("bakery", "bakery")
	earlier.Labels[v1alpha1.LabelOrigin] = "the ID of a former cluster of this name"
	stranger := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "stranger"}
	const report = "patch status NamespaceMap rome"

	type phases map[string]v1alpha1.NamespaceMappingPhase
	for _, test := range []struct {
		name    string
		objects []client.Object
		want    phases
		wrote   []string
		event   string
	}{
		{
			name:    "a remote namespace is created and not ready before its quota is in force",
			objects: []client.Object{requesting("bakery"), emptyOffer()},
			wrote: []string{
				"create Namespace bakery", "create RoleBinding federation-remote-namespace-manager",
				"create ResourceQuota federation",
				"create RoleBinding federation-remote-namespace",
			},
		},
		{
			name:    "a remote namespace is ready when its quota is in force",
			objects: append(configured(), requesting("bakery"), remoteNamespace("bakery", "bakery")),
			want:    phases{"bakery": v1alpha1.NamespaceMappingReady},
			wrote:   []string{report},
		},
		{
			name: "a quota that was deleted is created again, and the namespace stays ready",
			objects: []client.Object{
				reported(requesting("bakery"), "bakery"), remoteNamespace("bakery", "bakery"),
				binding("bakery", consumerBinding, consumer),
			},
			want:  phases{"bakery": v1alpha1.NamespaceMappingReady},
			wrote: []string{"create RoleBinding federation-remote-namespace-manager", "create ResourceQuota federation"},
		},
		{
			name: "the quota follows the offer",
			objects: append(configured(), reported(requesting("bakery"), "bakery"), remoteNamespace("bakery", "bakery"),
				offer()),
			want:  phases{"bakery": v1alpha1.NamespaceMappingReady},
			wrote: []string{"update ResourceQuota federation"},
		},
		{
			name: "the role is bound to the consumer of the peering",
			objects: []client.Object{
				requesting("bakery"), remoteNamespace("bakery", "bakery"), quotaIn("bakery", nothing),
				binding("bakery", consumerBinding, stranger), binding("bakery", managerBinding, controllers),
			},
			want:  phases{"bakery": v1alpha1.NamespaceMappingReady},
			wrote: []string{"update RoleBinding federation-remote-namespace", report},
		},
		{
			name:    "a namespace of the provider is left alone",
			objects: []client.Object{requesting("bakery"), emptyOffer(), aNamespace("bakery", nil)},
			want:    phases{"bakery": v1alpha1.NamespaceMappingConflict},
			wrote:   []string{report}, event: "NamespaceConflict",
		},
		{
			name:    "a remote namespace of another consumer is left alone",
			objects: []client.Object{requesting("bakery"), emptyOffer(), ofParis},
			want:    phases{"bakery": v1alpha1.NamespaceMappingConflict},
			wrote:   []string{report}, event: "NamespaceConflict",
		},
		{
			name:    "a remote namespace of a former cluster of the name is deleted",
			objects: []client.Object{requesting("bakery"), emptyOffer(), earlier},
			want:    phases{"bakery": v1alpha1.NamespaceMappingConflict},
			wrote:   []string{"delete Namespace bakery", report}, event: "NamespaceConflict",
		},
		{
			name:    "names of the system are refused",
			objects: []client.Object{requesting("kube-system", "liqo-system", "liqo-tenant-paris"), emptyOffer()},
			want: phases{
				"kube-system": v1alpha1.NamespaceMappingRefused, "liqo-system": v1alpha1.NamespaceMappingRefused,
				"liqo-tenant-paris": v1alpha1.NamespaceMappingRefused,
			},
			wrote: []string{report},
		},
		{
			name:    "names that end as names of hosts do are refused",
			objects: []client.Object{requesting("com"), emptyOffer()},
			want:    phases{"com": v1alpha1.NamespaceMappingRefused},
			wrote:   []string{report},
		},
		{
			name: "an existing remote namespace of such a name stays",
			objects: []client.Object{
				reported(requesting("shop"), "shop"), remoteNamespace("shop", "shop"), quotaIn("shop", nothing),
				binding("shop", consumerBinding, consumer), binding("shop", managerBinding, controllers),
			},
			want: phases{"shop": v1alpha1.NamespaceMappingReady},
		},
		{
			name:    "a remote namespace that is being deleted is not ready",
			objects: []client.Object{requesting("bakery"), ending(remoteNamespace("bakery", "bakery"))},
			want:    phases{"bakery": v1alpha1.NamespaceMappingTerminating},
			wrote:   []string{report},
		},
		{
			name:    "the remote namespace of another namespace is deleted before its name is used again",
			objects: []client.Object{requesting("bakery"), remoteNamespace("bakery", "other")},
			want:    phases{"bakery": v1alpha1.NamespaceMappingTerminating},
			wrote:   []string{"delete Namespace bakery", report},
		},
		{
			name:    "a remote namespace that is not requested is deleted",
			objects: []client.Object{reported(requesting(), "bakery"), remoteNamespace("bakery", "bakery")},
			want:    phases{"bakery": v1alpha1.NamespaceMappingTerminating},
			wrote:   []string{"delete Namespace bakery", report},
		},
		{
			name:    "nothing is written when nothing changed",
			objects: append(configured(), reported(requesting("bakery"), "bakery"), remoteNamespace("bakery", "bakery")),
			want:    phases{"bakery": v1alpha1.NamespaceMappingReady},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := kittest.New(t, append(test.objects, peered()...)...)
			pass(t, newReconciler(c))
			if diff := cmp.Diff(test.wrote, c.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			var got phases
			namespaceMap := kittest.Read(c, naming.TenantNamespace("milan"), "rome", &v1alpha1.NamespaceMap{})
			for _, entry := range namespaceMap.Status.Namespaces {
				if got == nil {
					got = phases{}
				}
				got[entry.Name] = entry.Phase
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
			events := c.Recorded()
			if (test.event != "") != (len(events) == 1) || test.event != "" && !strings.Contains(events[0], test.event) {
				t.Errorf("events %q, want %q", events, test.event)
			}
		})
	}
}

func TestRemoteNamespaceNamesTheClassesThatItsConsumerMayUse(t *testing.T) {
	want := map[string]string{
		v1alpha1.AnnotationOriginNamespace: "bakery", v1alpha1.AnnotationIngressClasses: "shared,private",
	}
	old := remoteNamespace("bakery", "bakery")
	old.Annotations[v1alpha1.AnnotationIngressClasses] = "shared"
	old.Annotations[v1alpha1.AnnotationLoadBalancerClasses] = "example.com/shared"
	current := remoteNamespace("bakery", "bakery")
	current.Annotations = want
	for _, test := range []struct {
		name   string
		before []client.Object
		wrote  []string
	}{
		{"when it is created", []client.Object{emptyOffer()}, []string{"create Namespace bakery"}},
		{"when the classes change", []client.Object{old}, []string{"patch Namespace bakery"}},
		{"once", []client.Object{current}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := kittest.New(t, slices.Concat(test.before, peered(), configured(),
				[]client.Object{reported(requesting("bakery"), "bakery")})...)
			kittest.Change(c, "", "milan", &v1alpha1.ForeignCluster{}, func(fc *v1alpha1.ForeignCluster) {
				fc.Spec.IncomingPolicy.IngressClasses = []string{"shared", "private"}
			})
			pass(t, newReconciler(c))
			if diff := cmp.Diff(test.wrote, c.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, kittest.Read(c, "", "bakery", &corev1.Namespace{}).Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

// kube-apiserver writes the status of a quota with each pod.
func TestRemoteNamespaceStaysReadyWhileTheUpdateOfItsQuotaConflicts(t *testing.T) {
	c := kittest.New(t, slices.Concat(peered(), configured(),
		[]client.Object{reported(requesting("bakery"), "bakery"), remoteNamespace("bakery", "bakery"), offer()})...)
	c.Fault = func(write kittest.Write, _ bool) error {
		if write.Kind != "ResourceQuota" {
			return nil
		}
		return apierrors.NewConflict(corev1.Resource("resourcequotas"), naming.RemoteNamespaceQuota,
			errors.New("it has changed"))
	}
	if again := pass(t, newReconciler(c)); again == 0 {
		t.Error("the update is not retried")
	}
	if diff := cmp.Diff([]string{"update ResourceQuota federation"}, c.WritesSince(0)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestRemoteNamespacesAreRemovedWithTheirTenant(t *testing.T) {
	disabled := foreignCluster()
	disabled.Spec.Incoming = v1alpha1.PeeringDisabled
	for _, test := range []struct {
		name    string
		objects []client.Object
	}{
		{"no ForeignCluster", []client.Object{tenantNamespace(), requesting("bakery")}},
		{
			"ForeignCluster that is being deleted",
			[]client.Object{ending(foreignCluster()), tenantNamespace(), requesting("bakery")},
		},
		{"disabled incoming peering", []client.Object{disabled, tenantNamespace(), requesting("bakery")}},
		{"no tenant namespace", []client.Object{foreignCluster()}},
		{"tenant namespace that is being deleted",
			[]client.Object{foreignCluster(), ending(tenantNamespace()), requesting("bakery")}},
		{"namespace that is no tenant namespace", []client.Object{
			foreignCluster(), aNamespace(naming.TenantNamespace("milan"), nil), requesting("bakery"),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := kittest.New(t, append(test.objects, remoteNamespace("bakery", "bakery"),
				binding(naming.TenantNamespace("milan"), tenantBinding, consumer))...)
			pass(t, newReconciler(c))
			if diff := cmp.Diff([]string{"delete Namespace bakery"}, c.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTenantsSelectOnlyPermittedNames(t *testing.T) {
	generated := naming.UniqueRemoteNamespace("bakery", "milan", consumerID)
	const permitted, refused, reserved = "", "does not permit the name", "is reserved"
	for _, test := range []struct {
		name    string
		objects []client.Object
		names   []string
		remote  string
		// refused is part of the message of the entry; empty if the name is permitted.
		refused string
	}{
		{"a generated name", nil, nil, generated, permitted},
		{"a name that the installation lists", nil, []string{"bak*"}, "bakery", permitted},
		{"another name", nil, []string{"mill"}, "bakery", refused},
		{"a namespace of Kubernetes that a pattern matches", nil, []string{"*"}, "kube-system", reserved},
		{"a tenant namespace that a pattern matches", nil, []string{"l*"}, "liqo-tenant-turin", reserved},
		{"another name that exists already", []client.Object{remoteNamespace("bakery", "bakery")}, nil, "bakery", permitted},
	} {
		t.Run(test.name, func(t *testing.T) {
			tenant := foreignCluster()
			tenant.Spec.Trust = v1alpha1.TrustTenant
			requested := requesting()
			requested.Spec.Namespaces = []v1alpha1.NamespaceMapping{{Name: "bakery", RemoteName: test.remote}}
			objects := append(test.objects, tenant, tenantNamespace(), requested, offer(),
				binding(naming.TenantNamespace("milan"), tenantBinding, consumer))
			r := newReconciler(kittest.New(t, objects...))
			r.Names = test.names
			of, err := r.tenantOf(t.Context(), "milan")
			if err != nil {
				t.Fatal(err)
			}
			status := r.entriesOf(t.Context(), of, 0)[0].status
			if refused := status.Phase == v1alpha1.NamespaceMappingRefused; refused != (test.refused != "") ||
				!strings.Contains(status.Message, test.refused) {
				t.Errorf("got phase %q: %s", status.Phase, status.Message)
			}
		})
	}
}

func TestConsumerWithoutAnOfferGetsNoNewRemoteNamespace(t *testing.T) {
	withdrawn := offer(func(o *v1alpha1.ResourceOffer) { o.Spec.Withdrawn = true })
	byHand := offer(func(o *v1alpha1.ResourceOffer) { o.Name = "by-hand" })
	for _, test := range []struct {
		name     string
		decision v1alpha1.PeeringDecision
		objects  []client.Object
		refused  bool
	}{
		{"undecided", v1alpha1.PeeringManual, nil, true},
		{"undecided, namespace exists", v1alpha1.PeeringManual, []client.Object{remoteNamespace("bakery", "bakery")}, false},
		{"undecided, namespace of the provider", v1alpha1.PeeringManual, []client.Object{aNamespace("bakery", nil)}, true},
		{"an offer by hand", v1alpha1.PeeringManual, []client.Object{byHand}, false},
		{"refused", v1alpha1.PeeringRefuse, []client.Object{withdrawn}, true},
		{"refused, namespace exists", v1alpha1.PeeringRefuse,
			[]client.Object{withdrawn, remoteNamespace("bakery", "bakery")}, false},
		{"an offer that is being deleted", "", []client.Object{ending(offer())}, true},
		{"no offer yet", v1alpha1.PeeringAccept, nil, true},
		{"an offer", v1alpha1.PeeringAccept, []client.Object{offer()}, false},
		{"an empty offer, cordoned", "", []client.Object{emptyOffer()}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := kittest.New(t, slices.Concat(test.objects, peered(), []client.Object{requesting("bakery")})...)
			kittest.Change(c, "", "milan", &v1alpha1.ForeignCluster{}, func(fc *v1alpha1.ForeignCluster) {
				fc.Spec.IncomingPolicy.Decision = test.decision
			})
			r := newReconciler(c)
			pass(t, r)
			answers := kittest.Read(c, naming.TenantNamespace("milan"), "rome", &v1alpha1.NamespaceMap{}).Status.Namespaces
			got := len(answers) == 1 && answers[0].Phase == v1alpha1.NamespaceMappingRefused &&
				strings.Contains(answers[0].Message, "spec.incomingPolicy.decision of ForeignCluster milan")
			if got != test.refused || c.Has(binding("bakery", consumerBinding)) == test.refused {
				t.Errorf("answers %v, writes %q", answers, c.WritesSince(0))
			}
			if !test.refused {
				return
			}
			before := len(c.Writes)
			if after := pass(t, r); after > 0 || len(c.Writes) > before {
				t.Errorf("without an offer it writes %q, and retries after %s", c.WritesSince(before), after)
			}
		})
	}
}

func TestOneConsumerHasABoundedNumberOfRemoteNamespaces(t *testing.T) {
	first, second := requesting(), requesting("one-more")
	first.Name, second.Name = "a", "b"
	for i := range maxEntries {
		name := fmt.Sprintf("n%04d", i)
		first.Spec.Namespaces = append(first.Spec.Namespaces, v1alpha1.NamespaceMapping{Name: name, RemoteName: name})
	}
	r := newReconciler(kittest.New(t, append(peered(), offer(), first, second)...))
	tenant, err := r.tenantOf(t.Context(), "milan")
	if err != nil {
		t.Fatal(err)
	}
	var refused []string
	for _, e := range r.entriesOf(t.Context(), tenant, 0) {
		if e.status.Phase == v1alpha1.NamespaceMappingRefused {
			refused = append(refused, e.Name)
		}
	}
	if diff := cmp.Diff([]string{"one-more"}, refused); diff != "" {
		t.Errorf("refused of %d namespaces (-want +got):\n%s", maxEntries+1, diff)
	}
}

func TestNewRemoteNamespacesAreWithinTheMaximum(t *testing.T) {
	two := func(objects []client.Object) []client.Object {
		cluster := objects[0].(*v1alpha1.ForeignCluster)
		cluster.Spec.IncomingPolicy.MaxRemoteNamespaces = ptr.To[int32](2)
		return objects
	}
	unrequested := ending(remoteNamespace("shop", "shop"))
	for _, test := range []struct {
		name      string
		objects   []client.Object
		requested []string
		refused   []string
	}{
		{"the first are accepted", two(peered()), []string{"c", "a", "b"}, []string{"b"}},
		{"no maximum", peered(), []string{"a", "b", "c"}, nil},
		{
			"existing ones stay, also beyond the maximum",
			append(two(peered()), remoteNamespace("a", "a"), remoteNamespace("b", "b"), remoteNamespace("c", "c")),
			[]string{"d", "a", "b", "c"}, []string{"d"},
		},
		{
			"an existing one counts before new ones", append(two(peered()), remoteNamespace("c", "c")),
			[]string{"a", "b", "c"}, []string{"b"},
		},
		{
			"one that is being deleted counts", append(two(peered()), unrequested), []string{"a", "b"}, []string{"b"},
		},
		{
			"a namespace of another owner does not count", append(two(peered()), aNamespace("bakery", nil)),
			[]string{"bakery", "a", "b", "c"}, []string{"c"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := kittest.New(t, append(test.objects, requesting(test.requested...), offer())...)
			r := newReconciler(c)
			var refused []string
			for range 3 {
				if _, err := r.Reconcile(t.Context(), kit.Request("", "milan")); err != nil {
					t.Fatal(err)
				}
				refused = nil
				key := client.ObjectKey{Namespace: naming.TenantNamespace("milan"), Name: "rome"}
				namespaceMap := &v1alpha1.NamespaceMap{}
				if err := c.Get(t.Context(), key, namespaceMap); err != nil {
					t.Fatal(err)
				}
				for _, status := range namespaceMap.Status.Namespaces {
					if status.Phase != v1alpha1.NamespaceMappingRefused {
						continue
					}
					refused = append(refused, status.Name)
					const field = "spec.incomingPolicy.maxRemoteNamespaces of ForeignCluster milan"
					if !strings.Contains(status.Message, field) {
						t.Errorf("message %q does not name %s", status.Message, field)
					}
				}
				if diff := cmp.Diff(test.refused, refused); diff != "" {
					t.Errorf("refused (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestObjectsRequestAPassOfTheirConsumer(t *testing.T) {
	c := kittest.New(t, append(peered(), requesting("bakery"), remoteNamespace("shop", "shop"),
		aNamespace("default", nil))...)
	r := newReconciler(c)
	for _, test := range []struct {
		name     string
		object   client.Object
		requests func(context.Context, client.Object) []reconcile.Request
		want     bool
	}{
		{"a tenant namespace", tenantNamespace(), r.requestsOfNamespace, true},
		{"a remote namespace", remoteNamespace("shop", "shop"), r.requestsOfNamespace, true},
		{"a namespace of a requested name", aNamespace("bakery", nil), r.requestsOfNamespace, true},
		{"another namespace", aNamespace("default", nil), r.requestsOfNamespace, false},
		{"a role binding in a remote namespace", binding("shop", consumerBinding), r.requestsInside, true},
		{"a role binding in another namespace", binding("default", consumerBinding), r.requestsInside, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var want []reconcile.Request
			if test.want {
				want = []reconcile.Request{kit.Request("", "milan")}
			}
			if diff := cmp.Diff(want, test.requests(t.Context(), test.object)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
