// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// host is a consumer with one virtual node.
type host struct {
	// guarded tells that a PodDisruptionBudget holds the pods back.
	guarded bool
	// refused is a pod whose eviction somebody forbids.
	refused string
	virtual *v1alpha1.VirtualNode
	// foreignCluster is the provider.
	foreignCluster v1alpha1.ForeignCluster
	offer          *v1alpha1.ResourceOffer
	siblings       []*v1alpha1.VirtualNode
	readable       []metav1.GroupVersionResource
	served         map[string]*metav1.APIResource
	discovery      error

	account    *corev1.ServiceAccount
	binding    *rbacv1.ClusterRoleBinding
	deployment *appsv1.Deployment
	node       *corev1.Node
	pods       []*corev1.Pod
	image      string
	time       time.Time
	writes     []string
}

func newHost() *host {
	return &host{
		virtual: &v1alpha1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: "milan", UID: "vn", Generation: 1},
			Spec:       v1alpha1.VirtualNodeSpec{ClusterID: milanID, NodeName: "liqo-milan", OfferName: "milan"},
		},
		image: "virtual-kubelet:1",
		time:  now,
	}
}

func found[T any](object *T) (*T, error) {
	if object == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("x"), "x")
	}
	return object, nil
}

func (h *host) did(what string) error {
	h.writes = append(h.writes, what)
	return nil
}

func (h *host) controller() *virtualNodes {
	return &virtualNodes{
		clusterID: romeID, clusterName: "rome", kubelet: VirtualKubelet{Image: h.image, PullPolicy: "IfNotPresent"},
		clock: testingclock.NewFakePassiveClock(h.time),
		get:   func(string, string) (*v1alpha1.VirtualNode, error) { return found(h.virtual) },
		commit: func(_ context.Context, old, wanted *v1alpha1.VirtualNode) (bool, error) {
			switch {
			case equality.Semantic.DeepEqual(old, wanted):
				return false, nil
			case !equality.Semantic.DeepEqual(old.Status, wanted.Status):
				h.virtual = wanted
				return true, h.did("status")
			case len(wanted.Finalizers) == 0:
				h.virtual = nil
				return true, h.did("release")
			}
			h.virtual = wanted
			return true, h.did("finalizer")
		},
		foreignCluster: func(string) (*v1alpha1.ForeignCluster, error) { return &h.foreignCluster, nil },
		offer:          func(string, string) (*v1alpha1.ResourceOffer, error) { return found(h.offer) },
		siblings:       func(string) ([]*v1alpha1.VirtualNode, error) { return append(h.siblings, h.virtual), nil },
		readable:       h.readable,
		served: func(_ context.Context, kind metav1.GroupVersionResource) (*metav1.APIResource, error) {
			return h.served[kind.Resource], h.discovery
		},
		getAccount: func(string, string) (*corev1.ServiceAccount, error) { return found(h.account) },
		createAccount: func(_ context.Context, account *corev1.ServiceAccount) error {
			h.account = account
			return h.did("create account")
		},
		removeAccount: func(context.Context, *corev1.ServiceAccount) error { h.account = nil; return h.did("delete account") },
		getBinding:    func(string) (*rbacv1.ClusterRoleBinding, error) { return found(h.binding) },
		bindingNow:    func(context.Context, string) (*rbacv1.ClusterRoleBinding, error) { return found(h.binding) },
		createBinding: func(_ context.Context, binding *rbacv1.ClusterRoleBinding) error {
			h.binding = binding
			return h.did("create binding")
		},
		removeBinding: func(context.Context, *rbacv1.ClusterRoleBinding) error {
			h.binding = nil
			return h.did("delete binding")
		},
		getDeployment: func(string, string) (*appsv1.Deployment, error) { return found(h.deployment) },
		createDeployment: func(_ context.Context, deployment *appsv1.Deployment) error {
			h.deployment = deployment
			return h.did("create deployment")
		},
		updateDeployment: func(_ context.Context, deployment *appsv1.Deployment) error {
			h.deployment = deployment
			return h.did("update deployment")
		},
		removeDeployment: func(context.Context, *appsv1.Deployment) error {
			h.deployment = nil
			return h.did("delete deployment")
		},
		getNode: func(string) (*corev1.Node, error) { return found(h.node) },
		cordonNode: func(context.Context, *corev1.Node) error {
			h.node.Spec.Unschedulable = true
			return h.did("cordon")
		},
		hold: func(_ context.Context, _ *corev1.Node, held bool) error {
			h.node.Spec.Unschedulable = held
			if held {
				metav1.SetMetaDataAnnotation(&h.node.ObjectMeta, v1alpha1.AnnotationCordoned, "true")
				return h.did("hold")
			}
			delete(h.node.Annotations, v1alpha1.AnnotationCordoned)
			return h.did("let go")
		},
		removeNode: func(context.Context, *corev1.Node) error { h.node = nil; return h.did("delete node") },
		pods:       func(context.Context, string) ([]*corev1.Pod, bool, error) { return h.pods, true, nil },
		offloaded:  func(namespace string) bool { return namespace == "shop" },
		evictPod: func(_ context.Context, pod *corev1.Pod) error {
			if h.guarded {
				return apierrors.NewTooManyRequests("the disruption budget does not allow it", 0)
			}
			if pod.Name == h.refused {
				return apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, errors.New("somebody's policy"))
			}
			pod.DeletionTimestamp = &metav1.Time{Time: h.time}
			return h.did("evict pod " + pod.Name)
		},
		removePod: func(_ context.Context, pod *corev1.Pod) error {
			if h.guarded {
				return apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, errors.New("somebody's policy"))
			}
			return h.did("remove pod " + pod.Name)
		},
		forgetPods: func(string) {},
	}
}

func (h *host) pass(t *testing.T) []string {
	t.Helper()
	h.writes = nil
	if _, err := h.controller().reconcile(t.Context(), cache.ObjectName{Namespace: "liqo-peer-milan", Name: "milan"}); err != nil {
		t.Fatal(err)
	}
	return h.writes
}

func (h *host) expect(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, h.pass(t)); diff != "" {
		t.Fatalf("writes (-want +got):\n%s", diff)
	}
}

func virtualMachine(change func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "liqo-milan", Labels: map[string]string{
		v1alpha1.LabelType: v1alpha1.TypeVirtualNode, v1alpha1.LabelRemoteClusterID: milanID,
	}}}
	change(node)
	return node
}

func TestAVirtualNodeGetsAKubeletAndThenRests(t *testing.T) {
	h := newHost()
	h.expect(t, "finalizer")
	h.expect(t, "create account", "create binding", "create deployment", "status")
	h.expect(t)
	if ready := meta.FindStatusCondition(h.virtual.Status.Conditions, v1alpha1.ConditionReady); ready.Reason != ReasonNodeMissing {
		t.Errorf("condition %+v", ready)
	}
	h.deployment.Status.AvailableReplicas = 1
	h.node = virtualMachine(func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	h.pods = []*corev1.Pod{{}, {Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, {Status: corev1.PodStatus{Phase: corev1.PodRunning}}}
	h.expect(t, "status")
	if status := h.virtual.Status; status.Pods != 2 || !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) ||
		!meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionVirtualKubeletAvailable) {
		t.Errorf("status %+v", status)
	}
	h.expect(t)
	h.image = "virtual-kubelet:2"
	h.expect(t, "update deployment")
	h.expect(t)
	h.virtual.Spec.Resources = list("cpu", "1")
	h.expect(t)
}

func TestAKubeletIsDeployedWithLeastPrivilege(t *testing.T) {
	h := newHost()
	deployment, err := h.controller().newDeployment(h.virtual, "milan")
	if err != nil {
		t.Fatal(err)
	}
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	if !*pod.SecurityContext.RunAsNonRoot || !*container.SecurityContext.ReadOnlyRootFilesystem || *container.SecurityContext.AllowPrivilegeEscalation ||
		!slices.Equal(container.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("security context %+v, %+v", pod.SecurityContext, container.SecurityContext)
	}
	if deployment.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || !metav1.IsControlledBy(deployment, h.virtual) {
		t.Errorf("strategy %v, owners %v", deployment.Spec.Strategy, deployment.OwnerReferences)
	}
	for _, flag := range []string{"--node-name=liqo-milan", "--cluster-id=" + romeID, "--remote-cluster-id=" + milanID, "--consumer-name=rome", "--node-ip=$(POD_IP)"} {
		if !slices.Contains(container.Args, flag) {
			t.Errorf("flag %s is missing in %v", flag, container.Args)
		}
	}
	if _, ok := container.Resources.Requests[corev1.ResourceMemory]; !ok || container.LivenessProbe == nil || container.ReadinessProbe.HTTPGet.Scheme != corev1.URISchemeHTTPS {
		t.Errorf("container %+v", container)
	}
}

func TestAKubeletIsToldWhereHomeIs(t *testing.T) {
	for _, server := range []string{"", "https://192.0.2.7:6443"} {
		h := newHost()
		c := h.controller()
		c.kubelet.HomeServer = server
		deployment, err := c.newDeployment(h.virtual, "milan")
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
			if value, ok := strings.CutPrefix(arg, "--home-server="); ok {
				got = value
			}
		}
		if got != server {
			t.Errorf("it is told %q, want %q", got, server)
		}
	}
	for server, address := range map[string]string{"": "", "https://rome.example.org": "", "https://10.96.0.1": "10.96.0.1", "https://[fd00::1]:6443": "fd00::1"} {
		kubelet := VirtualKubelet{PullPolicy: "Always", HomeServer: server, HomeThroughTunnels: true}
		if errs := kubelet.Validate(); (len(errs) == 0) != (address != "") {
			t.Errorf("through tunnels, %q: %v", server, errs)
		}
		if got := kubelet.HomeAddress(); got.IsValid() != (address != "") || got.IsValid() && got.String() != address {
			t.Errorf("through tunnels, %q is reached at %s", server, got)
		}
		if kubelet.HomeThroughTunnels = false; kubelet.HomeAddress().IsValid() {
			t.Errorf("%q is reached through tunnels, and nobody said so", server)
		}
		h := newHost()
		c := h.controller()
		c.kubelet.HomeThroughTunnels = address != ""
		deployment, err := c.newDeployment(h.virtual, "milan")
		if err != nil {
			t.Fatal(err)
		}
		if told := slices.Contains(deployment.Spec.Template.Spec.Containers[0].Args, "--home-through-tunnel"); told != (address != "") {
			t.Errorf("%q: it is told of tunnels: %t", server, told)
		}
	}
	for server, good := range map[string]bool{"": true, "https://192.0.2.7:6443": true, "http://192.0.2.7": false} {
		kubelet := VirtualKubelet{PullPolicy: "Always", HomeServer: server}
		if errs := kubelet.Validate(); (len(errs) == 0) != good {
			t.Errorf("%q: %v", server, errs)
		}
	}
}

// newDrainingHost is one whose virtual node has been deleted: the node takes no
// more pods, and the pod web is still on it.
func newDrainingHost(t *testing.T) *host {
	t.Helper()
	h := newHost()
	h.pass(t)
	h.pass(t)
	h.node = virtualMachine(func(n *corev1.Node) { n.Spec.Unschedulable = true })
	h.pods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}}
	h.virtual.DeletionTimestamp = &metav1.Time{Time: now}
	return h
}

func TestAVirtualNodeIsUndoneInOrder(t *testing.T) {
	h := newHost()
	h.pass(t)
	h.pass(t)
	h.node = virtualMachine(func(*corev1.Node) {})
	h.pods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}}
	h.virtual.DeletionTimestamp = &metav1.Time{Time: now}
	h.expect(t, "cordon", "evict pod web")
	h.expect(t)
	h.pods = nil
	h.expect(t, "delete deployment")
	h.expect(t, "delete node", "delete binding", "delete account", "release")
	h.expect(t)
}

func TestAVirtualNodeIsCordonedWithItsCluster(t *testing.T) {
	h := newHost()
	for range 2 {
		h.pass(t)
	}
	h.node = virtualMachine(func(*corev1.Node) {})
	h.pass(t)
	h.foreignCluster.Spec.Cordoned = true
	h.expect(t, "hold")
	h.expect(t)
	h.node.Spec.Unschedulable = false // by hand
	h.expect(t, "hold")
	h.foreignCluster.Spec.Cordoned = false
	h.expect(t, "let go")
	h.expect(t)

	// Somebody lets go of it before the cluster is let go of: what he cordons later
	// is his.
	h.foreignCluster.Spec.Cordoned = true
	h.expect(t, "hold")
	h.node.Spec.Unschedulable = false
	h.foreignCluster.Spec.Cordoned = false
	h.expect(t, "let go")
	h.expect(t)

	// What somebody has cordoned by hand is his.
	h.node.Spec.Unschedulable = true
	h.foreignCluster.Spec.Cordoned = true
	h.expect(t)
	h.foreignCluster.Spec.Cordoned = false
	h.expect(t)
}

func TestAClusterThatIsCordonedGetsNoNewNodes(t *testing.T) {
	h := newHost()
	h.foreignCluster.Spec.Cordoned = true
	for range 2 {
		h.pass(t)
	}
	if h.deployment != nil {
		t.Error("its virtual kubelet is deployed")
	}
	if c := meta.FindStatusCondition(h.virtual.Status.Conditions, v1alpha1.ConditionVirtualKubeletAvailable); c == nil || c.Reason != ReasonCordoned {
		t.Errorf("VirtualKubeletAvailable is %v", c)
	}
	h.foreignCluster.Spec.Cordoned = false
	h.pass(t)
	if h.deployment == nil {
		t.Error("its virtual kubelet is not deployed afterwards")
	}
}

func TestPodsThatNeverLeftAreNotDrained(t *testing.T) {
	h := newDrainingHost(t)
	system := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-proxy"}}
	// It would come again at once.
	daemon := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "collector", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "collector", Controller: ptr.To(true)},
	}}}
	h.pods = append(h.pods, system, daemon)
	h.expect(t, "evict pod web")
	h.pods = []*corev1.Pod{system, daemon}
	h.expect(t, "delete deployment")
}

func TestAPodThatMustNotBeEvictedKeepsNoOthers(t *testing.T) {
	h := newDrainingHost(t)
	h.refused = "first"
	h.pods = append([]*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "first"}}}, h.pods...)
	h.writes = nil
	_, err := h.controller().reconcile(t.Context(), cache.ObjectName{Namespace: "liqo-peer-milan", Name: "milan"})
	if !apierrors.IsForbidden(err) || !slices.Equal(h.writes, []string{"evict pod web"}) {
		t.Errorf("wrote %v, error %v", h.writes, err)
	}
}

func TestPodsThatDoNotGoAreWaitedForUntilTheDeadlineOnly(t *testing.T) {
	h := newDrainingHost(t)
	h.pods[0].DeletionTimestamp = &metav1.Time{Time: now}
	h.time = now.Add(199 * time.Second)
	h.expect(t)
	h.time = now.Add(200 * time.Second)
	h.expect(t, "delete deployment")
	h.expect(t, "remove pod web", "delete node", "delete binding", "delete account", "release")
}

func TestANodeTakesNoMorePodsAlsoWhenNoTimeIsLeft(t *testing.T) {
	h := newDrainingHost(t)
	h.node.Spec.Unschedulable = false
	h.time = now.Add(200 * time.Second)
	h.expect(t, "cordon", "delete deployment")
}

func TestPodsThatCannotBeRemovedDoNotHoldUpTheirNode(t *testing.T) {
	h := newDrainingHost(t)
	h.time = now.Add(200 * time.Second)
	h.expect(t, "delete deployment")
	h.guarded = true
	h.expect(t, "delete node", "delete binding", "delete account", "release")
}

func TestPodsThatNobodyCanSeeEndAreNotWaitedFor(t *testing.T) {
	for _, test := range []struct {
		name    string
		revoked time.Duration
		left    time.Duration
	}{
		{"revoked long ago", -time.Hour, 10 * time.Second},
		{"revoked a moment ago", -40 * time.Second, 20 * time.Second},
		{"revoked when it was nearly over", 190 * time.Second, 200 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newDrainingHost(t)
			h.foreignCluster.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionAuthenticated, Reason: identity.ReasonIdentityRevoked, LastTransitionTime: metav1.NewTime(now.Add(test.revoked)),
			}}
			h.expect(t, "evict pod web")
			h.time = now.Add(test.left - time.Second)
			h.expect(t)
			h.time = now.Add(test.left)
			h.expect(t, "delete deployment")
		})
	}
}

func TestANodeThatIsNotOursIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){
		"a machine":               func(n *corev1.Node) { n.Labels = nil },
		"one of another provider": func(n *corev1.Node) { n.Labels[v1alpha1.LabelRemoteClusterID] = romeID },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost()
			h.pass(t)
			h.pass(t)
			h.node = virtualMachine(change)
			h.virtual.DeletionTimestamp = &metav1.Time{Time: now}
			h.expect(t, "delete deployment")
			h.expect(t, "delete binding", "delete account", "release")
			if h.node == nil || h.node.Spec.Unschedulable {
				t.Error("the node was touched")
			}
		})
	}
}

func TestWhyNoKubeletComesUpIsSaid(t *testing.T) {
	for _, test := range []struct {
		name, reason string
		change       func(*host)
	}{
		{"no image", ReasonNoImage, func(h *host) { h.image = "" }},
		{"the name is taken", ReasonBindingOfAnother, func(h *host) {
			h.binding = &rbacv1.ClusterRoleBinding{Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "liqo-peer-other", Name: "virtual-kubelet-milan"}}}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost()
			h.pass(t)
			test.change(h)
			h.pass(t)
			condition := meta.FindStatusCondition(h.virtual.Status.Conditions, v1alpha1.ConditionVirtualKubeletAvailable)
			if condition.Reason != test.reason || !strings.HasSuffix(condition.Message, ".") || h.deployment != nil {
				t.Errorf("condition %+v", condition)
			}
		})
	}
}

func TestDrainRetriesPDB(t *testing.T) {
	h := newDrainingHost(t)
	h.guarded = true
	h.expect(t)
	h.expect(t)
	h.guarded = false
	h.expect(t, "evict pod web")
}

func TestVirtualNodeSaysWhetherThereIsANetwork(t *testing.T) {
	for phase, want := range map[v1alpha1.PeeringPhase]string{
		"": "False NoNetwork", v1alpha1.PeeringNone: "False NoNetwork", v1alpha1.PeeringPending: "False NoNetwork", v1alpha1.PeeringEstablished: "True NetworkReady",
	} {
		h := newHost()
		h.foreignCluster.Status.Networking = phase
		if err := h.controller().observeNetwork(h.virtual); err != nil {
			t.Fatal(err)
		}
		condition := meta.FindStatusCondition(h.virtual.Status.Conditions, v1alpha1.ConditionNetworkReady)
		if got := string(condition.Status) + " " + condition.Reason; got != want {
			t.Errorf("networking %q: %s, want %s", phase, got, want)
		}
	}
}

func TestVirtualNodeSaysWhatAddressesAreCalled(t *testing.T) {
	local, remote := []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.2.0.0/16"}}, []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.1.0.0/16"}}
	agreed := &v1alpha1.TunnelEndpoint{Spec: v1alpha1.TunnelEndpointSpec{ClusterID: newHost().virtual.Spec.ClusterID, Local: local, Remote: remote}}
	other := agreed.DeepCopy()
	other.Spec.ClusterID = "another"
	for _, test := range []struct {
		name         string
		installation v1alpha1.NetworkingMode
		said         v1alpha1.NetworkingMode
		tunnel       *v1alpha1.TunnelEndpoint
		want         *v1alpha1.VirtualNodeNetwork
	}{
		{"without a tunnel each has its own", v1alpha1.NetworkingFlat, "", agreed, nil},
		{"of this cluster alone there is none", v1alpha1.NetworkingTunnel, v1alpha1.NetworkingFlat, agreed, nil},
		{"what was agreed", v1alpha1.NetworkingTunnel, "", agreed, &v1alpha1.VirtualNodeNetwork{Local: local, Remote: remote}},
		{"nothing is reached before that", "", v1alpha1.NetworkingTunnel, nil, &v1alpha1.VirtualNodeNetwork{}},
		{"nor by what was agreed with another", v1alpha1.NetworkingTunnel, "", other, &v1alpha1.VirtualNodeNetwork{}},
	} {
		h := newHost()
		h.foreignCluster.Spec.Networking = test.said
		controller := h.controller()
		controller.networking = test.installation
		controller.tunnel = func(string) (*v1alpha1.TunnelEndpoint, error) { return found(test.tunnel) }
		if err := controller.observeNetwork(h.virtual); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, h.virtual.Status.Network); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

const (
	romeID  = "5ad4b6a1-0c9e-4f43-9d0b-0c7b1f3a2e11"
	milanID = "b7f1c9d2-8a31-4c5e-b3f6-2d9e8c7a6f22"
)

func list(pairs ...string) corev1.ResourceList {
	resources := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		resources[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return resources
}

func text(resources corev1.ResourceList) map[string]string {
	words := map[string]string{}
	for name, quantity := range resources {
		words[string(name)] = quantity.String()
	}
	return words
}
