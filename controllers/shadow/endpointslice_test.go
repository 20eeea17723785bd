// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	fedfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/generated/informers/externalversions"
)

var webSlice = cache.NewObjectName("twin", "web-abcde")

func shadowSlice(change ...func(*v1alpha1.ShadowEndpointSlice)) *v1alpha1.ShadowEndpointSlice {
	shadow := &v1alpha1.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-abcde", Namespace: "twin", UID: "shadow-uid", Generation: 1,
			Labels:      map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io", v1alpha1.LabelOrigin: "elsewhere"},
			Annotations: map[string]string{"a": "b"},
		},
		Spec: v1alpha1.ShadowEndpointSliceSpec{
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](8080)}},
			Endpoints: []v1alpha1.ShadowEndpoint{
				{Addresses: []string{"10.1.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}, Hostname: ptr.To("web-0")},
				{Addresses: []string{"10.1.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}},
			},
		},
	}
	for _, c := range change {
		c(shadow)
	}
	return shadow
}

// told is a shadow slice that has heard a verdict.
func told(v verdict, change ...func(*v1alpha1.ShadowEndpointSlice)) *v1alpha1.ShadowEndpointSlice {
	shadow := shadowSlice(change...)
	status := metav1.ConditionFalse
	if v.ready {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&shadow.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: status, Reason: v.reason, Message: v.message, ObservedGeneration: shadow.Generation,
	})
	return shadow
}

func rome(change ...func(*v1alpha1.ForeignCluster)) *v1alpha1.ForeignCluster {
	cluster := &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "rome"},
		Status: v1alpha1.ForeignClusterStatus{
			Networking: v1alpha1.PeeringEstablished,
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionConsumerAlive, Status: metav1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(cluster)
	}
	return cluster
}

func silent(cluster *v1alpha1.ForeignCluster) {
	cluster.Status.Conditions[0].Status = metav1.ConditionFalse
}

func withoutNetwork(cluster *v1alpha1.ForeignCluster) {
	cluster.Status.Networking = v1alpha1.PeeringNone
}

func twinOfRome() *corev1.Namespace {
	namespace := twin()
	namespace.Labels[v1alpha1.LabelForeignCluster] = "rome"
	return namespace
}

func node(address, pods string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker"},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{pods}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: "worker"}}},
	}
}

func serviceCIDR(cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

// sliceOf is the EndpointSlice of a shadow one as the API server has it.
func sliceOf(shadow *v1alpha1.ShadowEndpointSlice, reachable bool, change ...func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	slice, _ := sliceFor(shadow, twinOfRome(), reachable, territory{})
	slice.UID = "slice-uid"
	for _, c := range change {
		c(slice)
	}
	return slice
}

// slicesWorld is what the controller finds: its caches and the APIs hold the
// same.
type slicesWorld struct {
	*EndpointSlices
	kubeInformers       kubeinformers.SharedInformerFactory
	federationInformers externalversions.SharedInformerFactory
	clock               *clocktesting.FakeClock
	kube                *kubefake.Clientset
	federation          *fedfake.Clientset
}

func newSlicesWorld(t *testing.T, cluster *v1alpha1.ForeignCluster, namespace *corev1.Namespace, nodes *corev1.Node, shadow *v1alpha1.ShadowEndpointSlice, cached, unseen *discoveryv1.EndpointSlice) slicesWorld {
	t.Helper()
	w := slicesWorld{clock: clocktesting.NewFakeClock(noon), kube: kubefake.NewSimpleClientset(), federation: fedfake.NewSimpleClientset()}
	kube, federation := kubeinformers.NewSharedInformerFactory(w.kube, 0), externalversions.NewSharedInformerFactory(w.federation, 0)
	var err error
	w.EndpointSlices, err = NewEndpointSlices(w.kube, w.federation, kube, federation, Network{
		Refused: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}, Networking: v1alpha1.NetworkingFlat,
		Tunnels: federation.Federation().V1alpha1().TunnelEndpoints(), Namespace: "liqo",
	}, w.clock)
	if err != nil {
		t.Fatal(err)
	}
	add := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if cluster != nil {
		add(federation.Federation().V1alpha1().ForeignClusters().Informer().GetIndexer().Add(cluster))
	}
	add(kube.Core().V1().Namespaces().Informer().GetIndexer().Add(namespace))
	add(kube.Networking().V1().ServiceCIDRs().Informer().GetIndexer().Add(serviceCIDR("10.200.0.0/16", "fd00:200::/112")))
	w.kubeInformers, w.federationInformers = kube, federation
	if nodes != nil {
		add(kube.Core().V1().Nodes().Informer().GetIndexer().Add(nodes))
	}
	if shadow != nil {
		add(w.federation.Tracker().Add(shadow))
		add(federation.Federation().V1alpha1().ShadowEndpointSlices().Informer().GetIndexer().Add(shadow))
	}
	if cached != nil {
		add(w.kube.Tracker().Add(cached))
		add(w.sliceInformers.Discovery().V1().EndpointSlices().Informer().GetIndexer().Add(cached))
	}
	if unseen != nil {
		add(w.kube.Tracker().Add(unseen))
	}
	return w
}

func (w slicesWorld) writes() []string {
	return world{kube: w.kube, federation: w.federation}.writes()
}

// reason is what the consumer was told.
func (w slicesWorld) reason(t *testing.T) string {
	t.Helper()
	shadow, err := w.federation.FederationV1alpha1().ShadowEndpointSlices("twin").Get(t.Context(), "web-abcde", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	if ready := meta.FindStatusCondition(shadow.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return string(ready.Status) + " " + ready.Reason
	}
	return ""
}

func TestShadowEndpointSliceAndEndpointSliceComeTogether(t *testing.T) {
	well, quiet, cut := reachability(rome()), reachability(rome(silent)), reachability(rome(withoutNetwork))
	nobodys := func(slice *discoveryv1.EndpointSlice) { slice.OwnerReferences = nil }
	ofAnEarlierOne := func(slice *discoveryv1.EndpointSlice) { slice.OwnerReferences[0].UID = "earlier" }
	leaving := func(s *v1alpha1.ShadowEndpointSlice) { s.DeletionTimestamp = &metav1.Time{Time: noon} }
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "endpointslices"}, "web-abcde", errors.New("quota\x1b[31m"))
	create, update, remove, tell := "create endpointslices", "update endpointslices", "delete endpointslices", "patch shadowendpointslices/status"
	for _, test := range []struct {
		name           string
		cluster        *v1alpha1.ForeignCluster
		gone           bool
		namespace      *corev1.Namespace
		shadow         *v1alpha1.ShadowEndpointSlice
		cached, unseen *discoveryv1.EndpointSlice
		answer         error
		wrote          []string
		reason         string
		again, fails   bool
	}{
		{name: "one is made", shadow: shadowSlice(), wrote: []string{create, tell}, reason: "True Reachable"},
		{name: "one that is right is left in peace", shadow: told(well), cached: sliceOf(shadowSlice(), true), reason: "True Reachable"},
		{
			name: "drift is repaired", shadow: told(well), wrote: []string{update}, reason: "True Reachable",
			cached: sliceOf(shadowSlice(), true, func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Addresses = []string{"10.9.9.9"} }),
		},
		{
			name: "a label that is lost comes back", shadow: told(well), wrote: []string{create, update}, reason: "True Reachable",
			unseen: sliceOf(shadowSlice(), true, func(slice *discoveryv1.EndpointSlice) { delete(slice.Labels, discoveryv1.LabelManagedBy) }),
		},
		{name: "one that was not seen yet is left", shadow: told(well), unseen: sliceOf(shadowSlice(), true), wrote: []string{create}, reason: "True Reachable"},
		{name: "none is ready of a consumer that is silent", cluster: rome(silent), shadow: told(well), cached: sliceOf(shadowSlice(), true), wrote: []string{update, tell}, reason: "False ConsumerSilent"},
		{name: "that is said and done once", cluster: rome(silent), shadow: told(quiet), cached: sliceOf(shadowSlice(), false), reason: "False ConsumerSilent"},
		{name: "they are ready again when it is back", shadow: told(quiet), cached: sliceOf(shadowSlice(), false), wrote: []string{update, tell}, reason: "True Reachable"},
		{name: "there is none without a network", cluster: rome(withoutNetwork), shadow: shadowSlice(), wrote: []string{tell}, reason: "False NoNetwork"},
		{name: "it goes with the network", cluster: rome(withoutNetwork), shadow: told(well), cached: sliceOf(shadowSlice(), true), wrote: []string{remove, tell}, reason: "False NoNetwork"},
		{name: "what is nobody's stays without a network, too", cluster: rome(withoutNetwork), shadow: told(cut), cached: sliceOf(shadowSlice(), true, nobodys), reason: "False NoNetwork"},
		{name: "it comes with a network", shadow: told(cut), wrote: []string{create, tell}, reason: "True Reachable"},
		{name: "none is ready of a consumer that is gone", gone: true, shadow: told(well), cached: sliceOf(shadowSlice(), true), wrote: []string{update, tell}, reason: "False NoConsumer"},
		{name: "it goes with its shadow", cached: sliceOf(shadowSlice(), true), wrote: []string{remove}},
		{name: "it goes with a shadow that goes", shadow: told(well, leaving), cached: sliceOf(shadowSlice(), true), wrote: []string{remove}, reason: "True Reachable"},
		{name: "what is nobody's stays", cached: sliceOf(shadowSlice(), true, nobodys)},
		{name: "what is nobody's is in the way", shadow: shadowSlice(), cached: sliceOf(shadowSlice(), true, nobodys), wrote: []string{tell}, reason: "False NameConflict", again: true},
		{name: "what is somebody else's is in the way", shadow: shadowSlice(), unseen: sliceOf(shadowSlice(), true, nobodys), wrote: []string{create, tell}, reason: "False NameConflict", again: true},
		{name: "what an earlier one left makes room", shadow: shadowSlice(), cached: sliceOf(shadowSlice(), true, ofAnEarlierOne), wrote: []string{remove}},
		{
			name: "what an earlier one left unseen makes room, too", shadow: shadowSlice(), wrote: []string{create, remove, create, tell}, reason: "True Reachable",
			unseen: sliceOf(shadowSlice(), true, ofAnEarlierOne, func(slice *discoveryv1.EndpointSlice) { delete(slice.Labels, discoveryv1.LabelManagedBy) }),
		},
		{
			name: "another family makes another one", shadow: told(well), wrote: []string{remove}, reason: "True Reachable",
			cached: sliceOf(shadowSlice(), true, func(slice *discoveryv1.EndpointSlice) { slice.AddressType = discoveryv1.AddressTypeIPv6 }),
		},
		{name: "there is none outside of twins", namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "twin"}}, shadow: shadowSlice(), wrote: []string{tell}, reason: "False NotATwin", again: true},
		{name: "a refusal is told", shadow: shadowSlice(), answer: forbidden, wrote: []string{create, tell}, reason: "False ProviderRefused", again: true},
		{name: "trouble is tried again", shadow: shadowSlice(), answer: apierrors.NewInternalError(errors.New("oh")), wrote: []string{create}, fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster, namespace := test.cluster, test.namespace
			if cluster == nil && !test.gone {
				cluster = rome()
			}
			if namespace == nil {
				namespace = twinOfRome()
			}
			w := newSlicesWorld(t, cluster, namespace, nil, test.shadow, test.cached, test.unseen)
			if test.answer != nil {
				w.kube.PrependReactor("*", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.answer })
			}
			again, err := w.reconcile(t.Context(), webSlice)
			if (err != nil) != test.fails || (again > 0) != test.again {
				t.Errorf("error %v, again after %v", err, again)
			}
			if diff := cmp.Diff(test.wrote, w.writes()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if reason := w.reason(t); reason != test.reason {
				t.Errorf("the consumer is told %q, want %q", reason, test.reason)
			}
		})
	}
}

func TestAPeerImportsNothing(t *testing.T) {
	slice, _ := sliceFor(shadowSlice(func(s *v1alpha1.ShadowEndpointSlice) {
		s.Labels["multicluster.kubernetes.io/service-name"], s.Labels["multicluster.kubernetes.io/source-cluster"] = "web", "milan"
	}), twinOfRome(), true, territory{})
	plain, _ := sliceFor(shadowSlice(), twinOfRome(), true, territory{})
	if diff := cmp.Diff(plain.Labels, slice.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestEndpointSliceSaysWhereItComesFrom(t *testing.T) {
	got, left := sliceFor(shadowSlice(), twinOfRome(), true, territory{})
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-abcde", Namespace: "twin",
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: v1alpha1.ManagedBy,
				v1alpha1.LabelOrigin: "there", v1alpha1.LabelDestination: "here",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "federation.liqo.io/v1alpha1", Kind: "ShadowEndpointSlice", Name: "web-abcde", UID: "shadow-uid", Controller: ptr.To(true)}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](8080)}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.1.0.1"}, Hostname: ptr.To("web-0"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)}},
			{Addresses: []string{"10.1.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || left != 0 {
		t.Errorf("%d left out (-want +got):\n%s", left, diff)
	}
	away, _ := sliceFor(shadowSlice(), twinOfRome(), false, territory{})
	for i, endpoint := range away.Endpoints {
		if *endpoint.Conditions.Ready || *endpoint.Conditions.Serving {
			t.Errorf("endpoint %d is used while it cannot be reached", i)
		}
	}
}

func TestNoEndpointIsTheProvidersOwn(t *testing.T) {
	for _, test := range []struct {
		name      string
		node      *corev1.Node
		addresses []string
		want      []string
		reason    string
	}{
		{name: "others cross", node: node("192.0.2.1", "10.2.0.0/24"), addresses: []string{"10.1.0.1"}, want: []string{"10.1.0.1"}, reason: "True Reachable"},
		{name: "an address of a node does not", node: node("192.0.2.1", "10.2.0.0/24"), addresses: []string{"192.0.2.1", "10.1.0.1"}, want: []string{"10.1.0.1"}, reason: "True AddressesRefused"},
		{name: "nor one of a pod", node: node("192.0.2.1", "10.2.0.0/24"), addresses: []string{"10.2.0.7", "10.1.0.1"}, want: []string{"10.1.0.1"}, reason: "True AddressesRefused"},
		{name: "nor one that is refused", addresses: []string{"10.96.0.1", "10.1.0.1"}, want: []string{"10.1.0.1"}, reason: "True AddressesRefused"},
		{name: "nor one of a Service", addresses: []string{"10.200.3.4", "10.1.0.1"}, want: []string{"10.1.0.1"}, reason: "True AddressesRefused"},
		{name: "where none is left none is ready", node: node("192.0.2.1", "10.2.0.0/24"), addresses: []string{"10.2.0.7"}, reason: "False AddressesRefused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			shadow := shadowSlice(func(s *v1alpha1.ShadowEndpointSlice) {
				s.Spec.Endpoints = nil
				for _, address := range test.addresses {
					s.Spec.Endpoints = append(s.Spec.Endpoints, v1alpha1.ShadowEndpoint{Addresses: []string{address}})
				}
			})
			w := newSlicesWorld(t, rome(), twinOfRome(), test.node, shadow, nil, nil)
			if _, err := w.reconcile(t.Context(), webSlice); err != nil {
				t.Fatal(err)
			}
			slice, err := w.kube.DiscoveryV1().EndpointSlices("twin").Get(t.Context(), "web-abcde", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, endpoint := range slice.Endpoints {
				got = append(got, endpoint.Addresses...)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if reason := w.reason(t); reason != test.reason {
				t.Errorf("the consumer is told %q, want %q", reason, test.reason)
			}
		})
	}
}

// A provider that does not know the addresses of its Services cannot tell which
// endpoints are its own.
func TestThereAreNoEndpointsWhereServicesHaveUnknownAddresses(t *testing.T) {
	for _, test := range []struct {
		name    string
		known   bool
		refused []netip.Prefix
		wrote   []string
		reason  string
	}{
		{"nobody tells", false, nil, []string{"delete endpointslices", "patch shadowendpointslices/status"}, "False ServiceCIDRsUnknown"},
		{"its administrators tell", false, []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}, nil, "True Reachable"},
		{"the cluster tells", true, nil, nil, "True Reachable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newSlicesWorld(t, rome(), twinOfRome(), nil, told(reachability(rome())), sliceOf(shadowSlice(), true), nil)
			w.network.Refused = test.refused
			if !test.known {
				if err := w.kubeInformers.Networking().V1().ServiceCIDRs().Informer().GetIndexer().Delete(serviceCIDR()); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.reconcile(t.Context(), webSlice); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.wrote, w.writes()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if reason := w.reason(t); reason != test.reason {
				t.Errorf("the consumer is told %q, want %q", reason, test.reason)
			}
		})
	}
}

// Whoever the tunnel leads to cannot have the provider's Services lead elsewhere.
func TestWhereThereIsATunnelEndpointsAreInItsRanges(t *testing.T) {
	through := func(cluster *v1alpha1.ForeignCluster) {
		cluster.Spec.ClusterID, cluster.Spec.Networking = "there", v1alpha1.NetworkingTunnel
	}
	tunnel := func(cluster string, remote ...string) *v1alpha1.TunnelEndpoint {
		te := &v1alpha1.TunnelEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "rome"}, Spec: v1alpha1.TunnelEndpointSpec{ClusterID: cluster}}
		for _, mapped := range remote {
			te.Spec.Remote = append(te.Spec.Remote, v1alpha1.CIDRMapping{CIDR: "10.244.0.0/16", Mapped: mapped})
		}
		return te
	}
	both, one := []string{"10.1.0.1", "10.1.0.2"}, []string{"10.1.0.2"}
	for _, test := range []struct {
		name      string
		cluster   *v1alpha1.ForeignCluster
		byDefault v1alpha1.NetworkingMode
		tunnel    *v1alpha1.TunnelEndpoint
		cached    *discoveryv1.EndpointSlice
		want      []string
		reason    string
	}{
		{name: "those within cross", cluster: rome(through), tunnel: tunnel("there", "10.1.0.0/16"), want: both, reason: "True Reachable"},
		{name: "in any of them", cluster: rome(through), tunnel: tunnel("there", "10.1.0.1/32", "fd00::/48", "10.1.0.2/32"), want: both, reason: "True Reachable"},
		{name: "others are left out", cluster: rome(through), tunnel: tunnel("there", "10.1.0.2/31"), want: one, reason: "True AddressesRefused"},
		{name: "by what they are called here", cluster: rome(through), tunnel: tunnel("there", "10.9.0.0/16"), reason: "False AddressesRefused"},
		{name: "also of a consumer that is silent", cluster: rome(through, silent), tunnel: tunnel("there", "10.1.0.2/31"), want: one, reason: "False ConsumerSilent"},
		{name: "also where nobody says so of this consumer", cluster: rome(func(c *v1alpha1.ForeignCluster) { c.Spec.ClusterID = "there" }), byDefault: v1alpha1.NetworkingTunnel, tunnel: tunnel("there", "10.1.0.2/31"), want: one, reason: "True AddressesRefused"},
		{name: "what is there is taken back", cluster: rome(through), tunnel: tunnel("there", "10.1.0.2/31"), cached: sliceOf(shadowSlice(), true), want: one, reason: "True AddressesRefused"},
		{name: "before it is agreed upon there is none", cluster: rome(through), reason: "False NoNetwork"},
		{name: "nor any more when it is withdrawn", cluster: rome(through), cached: sliceOf(shadowSlice(), true), reason: "False NoNetwork"},
		{name: "one to another cluster is none", cluster: rome(through), tunnel: tunnel("elsewhere", "10.1.0.0/16"), reason: "False NoNetwork"},
		{name: "one that leads nowhere is none", cluster: rome(through), tunnel: tunnel("there", "10.1.0.0"), reason: "False NoNetwork"},
		{name: "in a flat network it says nothing", cluster: rome(), tunnel: tunnel("there", "10.9.0.0/16"), want: both, reason: "True Reachable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newSlicesWorld(t, test.cluster, twinOfRome(), nil, shadowSlice(), test.cached, nil)
			if test.byDefault != "" {
				w.network.Networking = test.byDefault
			}
			if test.tunnel != nil {
				if err := w.federationInformers.Federation().V1alpha1().TunnelEndpoints().Informer().GetIndexer().Add(test.tunnel); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.reconcile(t.Context(), webSlice); err != nil {
				t.Fatal(err)
			}
			slice, err := w.kube.DiscoveryV1().EndpointSlices("twin").Get(t.Context(), "web-abcde", metav1.GetOptions{})
			if (err != nil) != (strings.HasSuffix(test.reason, reasonNoNetwork)) || err != nil && !apierrors.IsNotFound(err) {
				t.Fatalf("the EndpointSlice: %v", err)
			}
			var got []string
			if err == nil {
				for _, endpoint := range slice.Endpoints {
					got = append(got, endpoint.Addresses...)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if reason := w.reason(t); reason != test.reason {
				t.Errorf("the consumer is told %q, want %q", reason, test.reason)
			}
		})
	}
	if ledElsewhere(tunnel("there", "10.1.0.0/16"), tunnel("there", "10.1.0.0/16")) || !ledElsewhere(tunnel("there", "10.1.0.0/16"), tunnel("there", "10.9.0.0/16")) {
		t.Error("tunnels are looked at for their ranges alone")
	}
}

func TestAnEndpointSliceIsWrittenOnceASecondAtMost(t *testing.T) {
	w := newSlicesWorld(t, rome(), twinOfRome(), nil, shadowSlice(), nil, nil)
	for _, step := range []struct {
		after time.Duration
		again time.Duration
		wrote int
	}{{0, 0, 1}, {300 * time.Millisecond, 700 * time.Millisecond, 1}, {700 * time.Millisecond, 0, 2}} {
		w.clock.Step(step.after)
		again, err := w.reconcile(t.Context(), webSlice)
		if err != nil {
			t.Fatal(err)
		}
		wrote := 0
		for _, action := range w.kube.Actions() {
			if action.GetVerb() == "create" {
				wrote++
			}
		}
		if again != step.again || wrote != step.wrote {
			t.Errorf("after %v it wrote %d times and looks again after %v", step.after, wrote, again)
		}
	}
}

func TestAnEndpointSliceThatComesAndGoesIsNoFaster(t *testing.T) {
	w := newSlicesWorld(t, rome(), twinOfRome(), nil, nil, nil, nil)
	w.wrote(webSlice)
	if w.tooSoon(cache.NewObjectName("another", webSlice.Name)) > 0 {
		t.Error("one of that name in another namespace waits for it")
	}
	w.clock.Step(300 * time.Millisecond)
	if again, err := w.reconcile(t.Context(), webSlice); err != nil || again != 700*time.Millisecond || w.tooSoon(webSlice) != again {
		t.Errorf("it is looked at again after %v, %v, and may be written after %v", again, err, w.tooSoon(webSlice))
	}
	w.clock.Step(700 * time.Millisecond)
	if again, err := w.reconcile(t.Context(), webSlice); err != nil || again != 0 || len(w.written) > 0 {
		t.Errorf("it is looked at again after %v, %v, and %v are remembered", again, err, w.written)
	}
}

func TestConsumersAreLookedAtWhenTheyTurn(t *testing.T) {
	for _, test := range []struct {
		name     string
		old, now *v1alpha1.ForeignCluster
		want     bool
	}{
		{"nothing", rome(), rome(), false},
		{"another generation", rome(), rome(func(c *v1alpha1.ForeignCluster) { c.Status.ObservedGeneration = 7 }), false},
		{"it falls silent", rome(), rome(silent), true},
		{"it is back", rome(silent), rome(), true},
		{"the network ends", rome(), rome(withoutNetwork), true},
		{"it is another network", rome(), rome(func(c *v1alpha1.ForeignCluster) { c.Spec.Networking = v1alpha1.NetworkingTunnel }), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := turnedAway(test.old, test.now); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
	if readdressed(node("192.0.2.1", "10.2.0.0/24"), node("192.0.2.1", "10.2.0.0/24")) || !readdressed(node("192.0.2.1", "10.2.0.0/24"), node("192.0.2.1", "10.3.0.0/24")) {
		t.Error("nodes are looked at for their addresses alone")
	}
	if resized(serviceCIDR("10.96.0.0/12"), serviceCIDR("10.96.0.0/12")) || !resized(serviceCIDR("10.96.0.0/12"), serviceCIDR("10.96.0.0/12", "fd00::/112")) {
		t.Error("ServiceCIDRs are looked at for their addresses alone")
	}
}
