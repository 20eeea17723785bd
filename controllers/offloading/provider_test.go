// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/queue"
)

func (w world) provider(t *testing.T, bindings ...*rbacv1.RoleBinding) (*Provider, *record.FakeRecorder) {
	t.Helper()
	events := record.NewFakeRecorder(10)
	p, err := NewProvider(w.kube, w.federation, w.kubeInf, w.fedInf, events, Installation{
		ClusterID: romeID, Namespaces: []string{"liqo-system"}, Account: "controllers", AccountNamespace: "liqo-system",
	})
	if err != nil {
		t.Fatal(err)
	}
	p.clock = clocktesting.NewFakePassiveClock(noon)
	for _, binding := range bindings {
		if err := w.kube.Tracker().Add(binding); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{tenantBinding, twinBinding, managerBinding} {
		for _, binding := range bindings {
			if binding.Name == name {
				if err := p.factories[i].Rbac().V1().RoleBindings().Informer().GetIndexer().Add(binding); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	// The quotas of a twin that has its roles are in force already.
	for _, binding := range bindings {
		if binding.Name != managerBinding {
			continue
		}
		quota := quotaIn(binding.Namespace, none)
		if err := w.kube.Tracker().Add(quota); err != nil {
			t.Fatal(err)
		}
		if err := p.factories[3].Core().V1().ResourceQuotas().Informer().GetIndexer().Add(quota); err != nil {
			t.Fatal(err)
		}
	}
	return p, events
}

// none is the quota of who is offered nothing.
var none = corev1.ResourceList{corev1.ResourcePods: resource.Quantity{}}

// quotaIn is a quota in force.
func quotaIn(namespace string, hard corev1.ResourceList) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: quotaName, Namespace: namespace},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
		Status:     corev1.ResourceQuotaStatus{Hard: hard},
	}
}

func binding(namespace, name string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   subjects,
	}
}

var (
	consumer    = rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "the-peering"}
	controllers = rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "controllers", Namespace: "liqo-system"}
)

func tenantNamespace() *corev1.Namespace {
	return namespace(naming.TenantNamespace("milan"), map[string]string{v1alpha1.LabelRole: v1alpha1.RoleTenant, v1alpha1.LabelForeignCluster: "milan"})
}

func wanted(entries ...string) *v1alpha1.NamespaceMap {
	m := mapWith(entries...)
	m.Namespace, m.Status = naming.TenantNamespace("milan"), v1alpha1.NamespaceMapStatus{}
	return m
}

func twin(name, origin string) *corev1.Namespace {
	n := namespace(name, map[string]string{
		v1alpha1.LabelRole: v1alpha1.RoleTwin, v1alpha1.LabelForeignCluster: "milan", v1alpha1.LabelOrigin: milanID,
	})
	n.Annotations = map[string]string{v1alpha1.AnnotationOriginNamespace: origin}
	return n
}

func TestTwinsAreWhatTheConsumerMayHave(t *testing.T) {
	going := twin("bakery", "bakery")
	going.DeletionTimestamp = &metav1.Time{Time: noon}
	foreign := twin("bakery", "bakery")
	foreign.Labels[v1alpha1.LabelForeignCluster] = "paris"
	earlier := twin("bakery", "bakery")
	earlier.Labels[v1alpha1.LabelOrigin] = "the cluster that had this name before"
	lent := []*rbacv1.RoleBinding{binding("bakery", twinBinding, consumer), binding("bakery", managerBinding, controllers)}
	stranger := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "stranger"}
	misled := []*rbacv1.RoleBinding{binding("bakery", twinBinding, stranger), binding("bakery", managerBinding, controllers)}

	lentShop := wanted("shop")
	lentShop.Status = mapWith("shop").Status

	for _, test := range []struct {
		name     string
		objects  []runtime.Object
		bindings []*rbacv1.RoleBinding
		want     map[string]v1alpha1.NamespaceMappingPhase
		wrote    []string
		event    string
	}{
		{
			name:    "a twin is made, with its bound and the rights in it, and is not ready before the bound is in force",
			objects: []runtime.Object{wanted("bakery")},
			wrote:   []string{"create namespaces", "create rolebindings", "create resourcequotas", "create rolebindings"},
		},
		{
			name:    "it is ready when the bound is in force",
			objects: []runtime.Object{wanted("bakery"), twin("bakery", "bakery")}, bindings: lent,
			want:  map[string]v1alpha1.NamespaceMappingPhase{"bakery": v1alpha1.NamespaceMappingReady},
			wrote: []string{"patch namespacemaps/status"},
		},
		{
			name:    "a bound that was lost comes back, and the twin stays ready",
			objects: []runtime.Object{answeredMap(wanted("bakery")), twin("bakery", "bakery")}, bindings: lent[:1],
			want:  map[string]v1alpha1.NamespaceMappingPhase{"bakery": v1alpha1.NamespaceMappingReady},
			wrote: []string{"create rolebindings", "create resourcequotas"},
		},
		{
			name:    "the bound follows the offer",
			objects: []runtime.Object{answeredMap(wanted("bakery")), twin("bakery", "bakery"), offer(nil)}, bindings: lent,
			want:  map[string]v1alpha1.NamespaceMappingPhase{"bakery": v1alpha1.NamespaceMappingReady},
			wrote: []string{"update resourcequotas"},
		},
		{
			name:    "rights go to the consumer that there is",
			objects: []runtime.Object{wanted("bakery"), twin("bakery", "bakery")}, bindings: misled,
			want:  map[string]v1alpha1.NamespaceMappingPhase{"bakery": v1alpha1.NamespaceMappingReady},
			wrote: []string{"update rolebindings", "patch namespacemaps/status"},
		},
		{
			name:    "a namespace of the provider's is left alone",
			objects: []runtime.Object{wanted("bakery"), namespace("bakery", nil)},
			want:    map[string]v1alpha1.NamespaceMappingPhase{"bakery": v1alpha1.NamespaceMappingConflict},
			wrote:   []string{"patch namespacemaps/status"}, event: "NamespaceConflict",
		},
		{
			name:    "so is another consumer's twin",
			objects: []runtime.Object{wanted("bakery"), foreign},
			want:    map[string]v1alpha1.NamespaceMappingPhase{"bakery": v1alpha1.NamespaceMappingConflict},
			wrote:   []string{"patch namespacemaps/status"}, event: "NamespaceConflict",
		},
		{
			name:    "a twin of a cluster that had the name before is nobody's, and goes",
			objects: []runtime.Object{wanted("bakery"), earlier},
			want:    map[string]v1alpha1.NamespaceMappingPhase{"bakery": v1alpha1.NamespaceMappingConflict},
			wrote:   []string{"delete namespaces", "patch namespacemaps/status"}, event: "NamespaceConflict",
		},
		{
			name:    "names of the system are refused",
			objects: []runtime.Object{wanted("kube-system", "liqo-system", "liqo-tenant-paris")},
			want: map[string]v1alpha1.NamespaceMappingPhase{
				"kube-system": v1alpha1.NamespaceMappingRefused, "liqo-system": v1alpha1.NamespaceMappingRefused, "liqo-tenant-paris": v1alpha1.NamespaceMappingRefused,
			},
			wrote: []string{"patch namespacemaps/status"},
		},
		{
			name:    "so are those that names of hosts end in",
			objects: []runtime.Object{wanted("com")},
			want:    map[string]v1alpha1.NamespaceMappingPhase{"com": v1alpha1.NamespaceMappingRefused},
			wrote:   []string{"patch namespacemaps/status"},
		},
		{
			name:    "and not taken away from who has one",
			objects: []runtime.Object{lentShop, twin("shop", "shop")}, bindings: []*rbacv1.RoleBinding{binding("shop", twinBinding, consumer), binding("shop", managerBinding, controllers)},
			want: map[string]v1alpha1.NamespaceMappingPhase{"shop": v1alpha1.NamespaceMappingReady},
		},
		{
			name:    "a twin on its way out is waited for",
			objects: []runtime.Object{wanted("bakery"), going},
			want:    map[string]v1alpha1.NamespaceMappingPhase{"bakery": v1alpha1.NamespaceMappingTerminating},
			wrote:   []string{"patch namespacemaps/status"},
		},
		{
			name:    "a twin of another namespace goes before its name is used again",
			objects: []runtime.Object{wanted("bakery"), twin("bakery", "other")},
			want:    map[string]v1alpha1.NamespaceMappingPhase{"bakery": v1alpha1.NamespaceMappingTerminating},
			wrote:   []string{"delete namespaces", "patch namespacemaps/status"},
		},
		{
			name:    "what nobody wants any more goes",
			objects: []runtime.Object{answeredMap(wanted()), twin("bakery", "bakery")},
			want:    map[string]v1alpha1.NamespaceMappingPhase{"bakery": v1alpha1.NamespaceMappingTerminating},
			wrote:   []string{"delete namespaces", "patch namespacemaps/status"},
		},
		{
			name:    "and nothing is written when nothing changed",
			objects: []runtime.Object{answeredMap(wanted("bakery")), twin("bakery", "bakery")}, bindings: lent,
			want: map[string]v1alpha1.NamespaceMappingPhase{"bakery": v1alpha1.NamespaceMappingReady},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, append(test.objects, foreignCluster(), tenantNamespace())...)
			p, events := w.provider(t, append(slices.Clone(test.bindings), binding(naming.TenantNamespace("milan"), tenantBinding, consumer))...)
			if _, err := p.reconcile(t.Context(), "milan"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.wrote, w.writes()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			m, err := w.federation.FederationV1alpha1().NamespaceMaps(naming.TenantNamespace("milan")).Get(t.Context(), "rome", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]v1alpha1.NamespaceMappingPhase
			for _, answer := range m.Status.Namespaces {
				if got == nil {
					got = map[string]v1alpha1.NamespaceMappingPhase{}
				}
				got[answer.Name] = answer.Phase
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			select {
			case event := <-events.Events:
				if test.event == "" || !strings.Contains(event, test.event) {
					t.Errorf("event %q, want %q", event, test.event)
				}
			default:
				if test.event != "" {
					t.Errorf("no event, want %s", test.event)
				}
			}
		})
	}
}

func TestATwinSaysWhichClassesItsConsumerMayName(t *testing.T) {
	lent := []*rbacv1.RoleBinding{
		binding(naming.TenantNamespace("milan"), tenantBinding, consumer), binding("bakery", twinBinding, consumer), binding("bakery", managerBinding, controllers),
	}
	own := map[string]string{v1alpha1.AnnotationOriginNamespace: "bakery", v1alpha1.AnnotationIngressClasses: "shared,private"}
	old := twin("bakery", "bakery")
	old.Annotations[v1alpha1.AnnotationIngressClasses], old.Annotations[v1alpha1.AnnotationLoadBalancerClasses] = "shared", "example.com/shared"
	said := twin("bakery", "bakery")
	said.Annotations = own
	for _, test := range []struct {
		name  string
		twin  *corev1.Namespace
		wrote []string
	}{
		{"from the beginning", nil, []string{"create namespaces"}},
		{"when that changes", old, []string{"patch namespaces"}},
		{"once", said, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			fc := foreignCluster()
			fc.Spec.Lending.IngressClasses = []string{"shared", "private"}
			objects := []runtime.Object{answeredMap(wanted("bakery")), fc, tenantNamespace()}
			if test.twin != nil {
				objects = append(objects, test.twin)
			}
			w := newWorld(t, objects...)
			p, _ := w.provider(t, lent...)
			if _, err := p.reconcile(t.Context(), "milan"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.wrote, w.writes()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			made, err := w.kube.CoreV1().Namespaces().Get(t.Context(), "bakery", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(own, made.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

// kube-apiserver writes the status of a quota with each pod.
func TestABoundThatCannotBeChangedYetTakesNoTwinAway(t *testing.T) {
	lent := []*rbacv1.RoleBinding{
		binding(naming.TenantNamespace("milan"), tenantBinding, consumer), binding("bakery", twinBinding, consumer), binding("bakery", managerBinding, controllers),
	}
	w := newWorld(t, answeredMap(wanted("bakery")), twin("bakery", "bakery"), offer(nil), foreignCluster(), tenantNamespace())
	p, _ := w.provider(t, lent...)
	w.kube.PrependReactor("update", "resourcequotas", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(corev1.Resource("resourcequotas"), quotaName, errors.New("it has changed"))
	})
	if _, err := p.reconcile(t.Context(), "milan"); !apierrors.IsConflict(err) {
		t.Errorf("it is not tried again: %v", err)
	}
	if diff := cmp.Diff([]string{"update resourcequotas"}, w.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// answeredMap is a map that said that its twin bakery is ready.
func answeredMap(m *v1alpha1.NamespaceMap) *v1alpha1.NamespaceMap {
	m.Status = mapWith("bakery").Status
	return m
}

func offer(change func(*v1alpha1.ResourceOffer)) *v1alpha1.ResourceOffer {
	offer := &v1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: naming.TenantNamespace("milan")},
		Spec:       v1alpha1.ResourceOfferSpec{Resources: resources("cpu", "2", "pods", "10")},
	}
	if change != nil {
		change(offer)
	}
	return offer
}

func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestQuotaOfATwinIsWhatIsOffered(t *testing.T) {
	for _, test := range []struct {
		name   string
		offers []*v1alpha1.ResourceOffer
		want   corev1.ResourceList
	}{
		{"nothing without an offer", nil, none},
		{"nothing of an offer that was withdrawn", []*v1alpha1.ResourceOffer{offer(func(o *v1alpha1.ResourceOffer) { o.Spec.Withdrawn = true })}, none},
		{"nothing of an offer that goes", []*v1alpha1.ResourceOffer{offer(func(o *v1alpha1.ResourceOffer) { o.DeletionTimestamp = &metav1.Time{Time: noon} })}, none},
		{"what is requested, and pods", []*v1alpha1.ResourceOffer{offer(nil)}, resources("requests.cpu", "2", "pods", "10")},
		{"storage belongs to the ledger, not to the quota", []*v1alpha1.ResourceOffer{offer(func(o *v1alpha1.ResourceOffer) {
			o.Spec.Storage = resources("requests.storage", "10Gi", "persistentvolumeclaims", "3")
		})}, resources("requests.cpu", "2", "pods", "10")},
		{"the sum of offers", []*v1alpha1.ResourceOffer{offer(nil), offer(nil)}, resources("requests.cpu", "4", "pods", "20")},
		{
			"what Kubernetes has a quota for",
			[]*v1alpha1.ResourceOffer{offer(func(o *v1alpha1.ResourceOffer) {
				o.Spec.Resources = resources("memory", "1Gi", "ephemeral-storage", "1Gi", "hugepages-2Mi", "4Mi", "example.com/gpu", "1", "attachable-volumes-x", "9")
			})},
			resources("requests.memory", "1Gi", "requests.ephemeral-storage", "1Gi", "requests.hugepages-2Mi", "4Mi", "requests.example.com/gpu", "1"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, quotaOf(test.offers)); diff != "" {
				t.Errorf("quota (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheBoundOfATwinDoesNotFallWhileMoreRunsThanIsOffered(t *testing.T) {
	for _, test := range []struct {
		name                         string
		current, offered, runs, want corev1.ResourceList
	}{
		{"what is offered", nil, resources("requests.cpu", "4", "pods", "10"), nil, resources("requests.cpu", "4", "pods", "10")},
		{"less than before, if no more runs", resources("requests.cpu", "8"), resources("requests.cpu", "4"), resources("requests.cpu", "4"), resources("requests.cpu", "4")},
		{"what it was before the consumer was cordoned", resources("requests.cpu", "8"), resources("requests.cpu", "0"), resources("requests.cpu", "6"), resources("requests.cpu", "8")},
		{"what runs, if it has fallen", resources("requests.cpu", "1"), resources("requests.cpu", "0"), resources("requests.cpu", "6"), resources("requests.cpu", "6")},
		{"of no resource less, if more runs of one", resources("requests.cpu", "8", "pods", "9"), resources("requests.cpu", "4", "pods", "5"), resources("requests.cpu", "6", "pods", "1"),
			resources("requests.cpu", "8", "pods", "9")},
		{"what is offered now, of a resource of which more is", resources("requests.cpu", "8", "pods", "1"), resources("requests.cpu", "4", "pods", "5"), resources("requests.cpu", "6"),
			resources("requests.cpu", "8", "pods", "5")},
		{"nothing of what is not offered", resources("requests.cpu", "8", "requests.example.com/gpu", "1"), resources("requests.cpu", "4"), resources("requests.example.com/gpu", "1"), resources("requests.cpu", "4")},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, boundOf(test.current, test.offered, test.runs)); diff != "" {
				t.Errorf("bound (-want +got):\n%s", diff)
			}
		})
	}
}

// A shadow pod whose pod is gone, with the node that it was on, is one that runs:
// its pod is made again.
func TestWhatRunsIsWithinTheBoundOfItsTwin(t *testing.T) {
	shadow := func(name, consumer string, phase corev1.PodPhase) *v1alpha1.ShadowPod {
		return &v1alpha1.ShadowPod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "bakery"},
			Spec: v1alpha1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "web", Resources: corev1.ResourceRequirements{Requests: resources("cpu", "2")},
			}}}},
			Status: v1alpha1.ShadowPodStatus{ForeignCluster: consumer, Phase: phase},
		}
	}
	nothing := func(o *v1alpha1.ResourceOffer) { o.Spec.Resources = resources("cpu", "0", "pods", "0") }
	for _, test := range []struct {
		name   string
		change func(*v1alpha1.ResourceOffer)
		want   corev1.ResourceList
		again  time.Duration
	}{
		{"its consumer is cordoned", nothing, resources("requests.cpu", "2", "pods", "1"), recount},
		{"there is enough for it", nil, resources("requests.cpu", "2", "pods", "10"), 0},
		{"it is to go", func(o *v1alpha1.ResourceOffer) { nothing(o); o.Spec.Withdrawn = true }, none, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, answeredMap(wanted("bakery")), twin("bakery", "bakery"), offer(test.change), foreignCluster(), tenantNamespace(),
				shadow("web", "milan", ""), shadow("done", "milan", corev1.PodSucceeded), shadow("other", "naples", ""))
			p, _ := w.provider(t, binding(naming.TenantNamespace("milan"), tenantBinding, consumer), binding("bakery", twinBinding, consumer), binding("bakery", managerBinding, controllers))
			again, err := p.reconcile(t.Context(), "milan")
			if err != nil {
				t.Fatal(err)
			}
			if again != test.again {
				t.Errorf("it is looked at again after %s, want %s", again, test.again)
			}
			quota, err := w.kube.CoreV1().ResourceQuotas("bakery").Get(t.Context(), quotaName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, quota.Spec.Hard); diff != "" {
				t.Errorf("bound (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTwinsGoWithTheirTenant(t *testing.T) {
	unlent := foreignCluster()
	unlent.Spec.Incoming = v1alpha1.PeeringDisabled
	leaving := foreignCluster()
	leaving.DeletionTimestamp = &metav1.Time{Time: noon}
	ending := tenantNamespace()
	ending.DeletionTimestamp = &metav1.Time{Time: noon}
	for _, test := range []struct {
		name    string
		objects []runtime.Object
	}{
		{"the foreign cluster is gone", []runtime.Object{tenantNamespace(), wanted("bakery")}},
		{"the foreign cluster goes", []runtime.Object{leaving, tenantNamespace(), wanted("bakery")}},
		{"nothing is lent any more", []runtime.Object{unlent, tenantNamespace(), wanted("bakery")}},
		{"the tenant namespace is gone", []runtime.Object{foreignCluster()}},
		{"the tenant namespace goes", []runtime.Object{foreignCluster(), ending, wanted("bakery")}},
		{"the tenant namespace is not one", []runtime.Object{foreignCluster(), namespace(naming.TenantNamespace("milan"), nil), wanted("bakery")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, append(test.objects, twin("bakery", "bakery"))...)
			p, _ := w.provider(t, binding(naming.TenantNamespace("milan"), tenantBinding, consumer))
			if _, err := p.reconcile(t.Context(), "milan"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"delete namespaces"}, w.writes()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOneConsumerHasABoundedNumberOfTwins(t *testing.T) {
	first, second := wanted(), wanted("one-more")
	first.Name, second.Name = "a", "b"
	for i := range maxMappings {
		name := fmt.Sprintf("n%04d", i)
		first.Spec.Namespaces = append(first.Spec.Namespaces, v1alpha1.NamespaceMapping{Name: name, RemoteName: name})
	}
	w := newWorld(t, foreignCluster(), tenantNamespace(), first, second)
	p, _ := w.provider(t)
	tenant, err := p.tenant("milan")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, wish := range p.wishes(tenant, nil) {
		if wish.answer.Phase == v1alpha1.NamespaceMappingRefused {
			refused++
			if wish.Name != "one-more" {
				t.Errorf("%s is refused", wish.Name)
			}
		}
	}
	if refused != 1 {
		t.Errorf("%d of %d namespaces are refused", refused, maxMappings+1)
	}
}

func TestTwinIsEmptiedBeforeItGoes(t *testing.T) {
	pod := func(deleted time.Duration) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "bakery"}}
		if deleted >= 0 {
			since := metav1.NewTime(noon.Add(-deleted))
			pod.DeletionTimestamp, pod.Finalizers = &since, []string{"test/stays"}
		}
		return pod
	}
	// graceful was deleted so long ago, and may take so long to end.
	graceful := func(deleted, grace time.Duration) *corev1.Pod {
		pod := pod(deleted - grace)
		pod.DeletionTimestamp = &metav1.Time{Time: noon.Add(grace - deleted)}
		pod.Finalizers, pod.DeletionGracePeriodSeconds = []string{"test/stays"}, ptr.To(int64(grace/time.Second))
		return pod
	}
	endless := graceful(time.Second, time.Minute)
	endless.DeletionGracePeriodSeconds = ptr.To[int64](10_000_000_000)
	shadow := &v1alpha1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "bakery"}}
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		wrote   []string
		again   bool
	}{
		{"shadow pods first, and no pods of new ones", []runtime.Object{shadow, pod(-1)}, []string{"create resourcequotas", "delete-collection shadowpods", "delete-collection shadowpods"}, true},
		{"then pods, in whose place no others come", []runtime.Object{pod(-1)}, []string{"create resourcequotas", "delete-collection pods"}, true},
		{"pods that stop are waited for", []runtime.Object{pod(time.Second)}, nil, true},
		{"but not for ever", []runtime.Object{pod(timeout)}, []string{"delete namespaces"}, false},
		{"within their grace period", []runtime.Object{graceful(time.Minute, time.Hour)}, nil, true},
		{"but for no longer than others", []runtime.Object{graceful(timeout, 365*24*time.Hour)}, []string{"delete-collection pods", "delete namespaces"}, false},
		{"nor for one that is longer than time", []runtime.Object{endless}, []string{"delete-collection pods", "delete namespaces"}, false},
		{"then everything else", nil, []string{"delete namespaces"}, false},
		{"but no data", []runtime.Object{aVolume("bakery")}, nil, true},
		{"nor while pods are deleted", []runtime.Object{aVolume("bakery"), pod(timeout)}, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, append(test.objects, twin("bakery", "bakery"))...)
			p, _ := w.provider(t)
			again, err := p.reconcile(t.Context(), "milan")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.wrote, w.writes()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if (again > 0) != test.again {
				t.Errorf("looks again after %s", again)
			}
		})
	}
}

func aVolume(namespace string) *v1alpha1.ShadowVolumeClaim {
	return &v1alpha1.ShadowVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-db-0-0a1b2c3d", Namespace: namespace}}
}

func TestAnswerNamesTheVolumesThatKeepARemoteNamespace(t *testing.T) {
	left := wanted()
	left.Status = mapWith("bakery").Status
	w := newWorld(t, foreignCluster(), tenantNamespace(), left, twin("bakery", "bakery"), aVolume("bakery"))
	p, _ := w.provider(t, binding(naming.TenantNamespace("milan"), tenantBinding, consumer))
	again, err := p.reconcile(t.Context(), "milan")
	if err != nil || again != volumesInterval {
		t.Fatalf("looks again after %s, error %v", again, err)
	}
	answered, err := w.federation.FederationV1alpha1().NamespaceMaps(left.Namespace).Get(t.Context(), left.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []v1alpha1.NamespaceMappingStatus{{
		Name: "bakery", RemoteName: "bakery", Phase: v1alpha1.NamespaceMappingTerminating,
		Message: "the remote namespace is kept without pods while it has volumes: move or delete the ShadowVolumeClaims data-db-0-0a1b2c3d",
	}}
	if diff := cmp.Diff(want, answered.Status.Namespaces); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// NamespaceDeleteErrorRequeues is a name of the table of known mistakes: a twin
// whose deletion fails stays for ever.
func TestNamespaceDeleteErrorRequeues(t *testing.T) {
	w := newWorld(t, twin("bakery", "bakery"))
	deleted := make(chan struct{})
	failures := 2
	w.kube.PrependReactor("delete", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		if failures--; failures >= 0 {
			return true, nil, errors.New("no luck")
		}
		close(deleted)
		return false, nil, nil
	})
	p, _ := w.provider(t)
	controller := queue.New("twin-namespace", 1, p.reconcile)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); controller.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	controller.Add("milan")
	select {
	case <-deleted:
	case <-time.After(20 * time.Second):
		t.Error("after an error it is not deleted any more")
	}
}
