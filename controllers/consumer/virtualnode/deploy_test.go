// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestVirtualNodeHasAKubelet(t *testing.T) {
	w := newWorld(t)
	w.expect("patch VirtualNode milan")
	w.expect("patch status VirtualNode milan")
	w.expect("create ServiceAccount "+kubelet, "create ClusterRoleBinding "+role, "create Deployment "+kubelet,
		"patch status VirtualNode milan")
	w.expect()
	if ready := w.condition(v1alpha1.ConditionReady); ready.Reason != ReasonNodeMissing {
		t.Errorf("condition %+v", ready)
	}
	kittest.Change(w.Cluster, peer, kubelet, &appsv1.Deployment{},
		func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 })
	w.addNode(func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	for name, phase := range map[string]corev1.PodPhase{"new": "", "done": corev1.PodSucceeded,
		"running": corev1.PodRunning} {
		w.addPod("shop", name, func(pod *corev1.Pod) { pod.Status.Phase = phase })
	}
	w.expect("patch status VirtualNode milan")
	if status := w.virtual().Status; status.Pods != 2 ||
		!meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) ||
		!meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionVirtualKubeletAvailable) {
		t.Errorf("status %+v", status)
	}
	w.expect()
	w.VirtualKubelet.Image = "federation-virtual-kubelet:2"
	w.expect("update Deployment " + kubelet)
	w.expect()
	w.changeVirtual(func(virtual *v1alpha1.VirtualNode) { virtual.Spec.Resources = list("cpu", "1") })
	w.expect()
}

func TestKilledAtAnyWriteTheKubeletIsDeployedOnce(t *testing.T) {
	for number := range 6 {
		for _, done := range []bool{false, true} {
			w := newWorld(t)
			w.Kill(number, done)
			var err error
			for range 3 {
				if _, err = w.pass(); err != nil {
					break
				}
			}
			if !errors.Is(err, kittest.ErrKilled) {
				t.Fatalf("write %d, done %t: error %v", number, done, err)
			}
			w.Fault = nil
			w.deploy()
			if w.deployment() == nil || w.condition(v1alpha1.ConditionVirtualKubeletAvailable) == nil {
				t.Errorf("write %d, done %t: no kubelet", number, done)
			}
			w.expect()
		}
	}
}

func TestKubeletIsDeployedWithLeastPrivilege(t *testing.T) {
	w := newWorld(t)
	deployment, err := w.newDeployment(w.virtual(), "milan")
	if err != nil {
		t.Fatal(err)
	}
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	if !*pod.SecurityContext.RunAsNonRoot || !*container.SecurityContext.ReadOnlyRootFilesystem ||
		*container.SecurityContext.AllowPrivilegeEscalation ||
		!slices.Equal(container.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("security context %+v, %+v", pod.SecurityContext, container.SecurityContext)
	}
	if deployment.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType ||
		!metav1.IsControlledBy(deployment, w.virtual()) {
		t.Errorf("strategy %v, owners %v", deployment.Spec.Strategy, deployment.OwnerReferences)
	}
	// A provider must not use up the memory of the node with its responses.
	if got := container.Resources.Limits.Memory().String(); got != "512Mi" {
		t.Errorf("memory limit %s", got)
	}
	for _, flag := range []string{
		"--node-name=liqo-milan", "--cluster-id=" + romeID, "--remote-cluster-id=" + milanID, "--consumer-name=rome",
		"--node-ip=$(POD_IP)",
	} {
		if !slices.Contains(container.Args, flag) {
			t.Errorf("flag %s is missing in %v", flag, container.Args)
		}
	}
	if _, ok := container.Resources.Requests[corev1.ResourceMemory]; !ok || container.LivenessProbe == nil ||
		container.ReadinessProbe.HTTPGet.Scheme != corev1.URISchemeHTTPS {
		t.Errorf("container %+v", container)
	}
}

func TestVirtualKubeletHasTheRefusedCIDRs(t *testing.T) {
	for _, test := range []struct {
		name    string
		refused []string
		want    []string
	}{
		{"none", nil, nil},
		{"two", []string{"10.96.0.0/12", "fd00:96::/112"},
			[]string{"--policy-refused-endpoint-cidrs=10.96.0.0/12,fd00:96::/112"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.RefusedEndpointCIDRs = test.refused
			deployment, err := w.newDeployment(w.virtual(), "milan")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
				if strings.HasPrefix(arg, "--policy-refused-endpoint-cidrs") {
					got = append(got, arg)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("flags (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKubeletHasTheURLOfTheConsumersAPIServer(t *testing.T) {
	arguments := func(server string, throughTunnels bool) []string {
		w := newWorld(t)
		w.VirtualKubelet.ConsumerAPIServer, w.VirtualKubelet.ConsumerAPIServerThroughTunnels = server, throughTunnels
		deployment, err := w.newDeployment(w.virtual(), "milan")
		if err != nil {
			t.Fatal(err)
		}
		return deployment.Spec.Template.Spec.Containers[0].Args
	}
	for _, server := range []string{"", "https://192.0.2.7:6443"} {
		var got string
		for _, arg := range arguments(server, false) {
			if value, ok := strings.CutPrefix(arg, "--consumer-api-server="); ok {
				got = value
			}
		}
		if got != server {
			t.Errorf("--consumer-api-server is %q, want %q", got, server)
		}
	}
	for server, address := range map[string]string{
		"": "", "https://rome.example.org": "", "https://10.96.0.1": "10.96.0.1:443", "https://[fd00::1]:6443": "[fd00::1]:6443",
	} {
		options := VirtualKubelet{PullPolicy: "Always", ConsumerAPIServer: server, ConsumerAPIServerThroughTunnels: true}
		if errs := options.Validate(); (len(errs) == 0) != (address != "") {
			t.Errorf("through tunnels, %q: %v", server, errs)
		}
		if got := options.ConsumerAPIServerAddress(); got.IsValid() != (address != "") || got.IsValid() &&
			got.String() != address {
			t.Errorf("through tunnels, the address of %q is %s", server, got)
		}
		if options.ConsumerAPIServerThroughTunnels = false; options.ConsumerAPIServerAddress().IsValid() {
			t.Errorf("%q has an address in tunnels without --consumer-api-server-through-tunnels", server)
		}
		if got := slices.Contains(arguments(server, address != ""),
			"--consumer-api-server-through-tunnels"); got != (address != "") {
			t.Errorf("%q: --consumer-api-server-through-tunnels is set: %t", server, got)
		}
	}
	for server, valid := range map[string]bool{"": true, "https://192.0.2.7:6443": true, "http://192.0.2.7": false} {
		options := VirtualKubelet{PullPolicy: "Always", ConsumerAPIServer: server}
		if errs := options.Validate(); (len(errs) == 0) != valid {
			t.Errorf("%q: %v", server, errs)
		}
	}
}

func TestNodeIsCordonedWithItsCluster(t *testing.T) {
	w := newWorld(t)
	w.deploy()
	w.addNode()
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	cordonCluster := func(cordoned bool) {
		w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.Cordoned = cordoned })
	}
	byHand := func(cordoned bool) { w.changeNode(func(node *corev1.Node) { node.Spec.Unschedulable = cordoned }) }
	cordonCluster(true)
	w.expect("patch Node liqo-milan")
	w.expect()
	byHand(false)
	w.expect("patch Node liqo-milan")
	cordonCluster(false)
	w.expect("patch Node liqo-milan")
	w.expect()

	// A node that is uncordoned manually while its ForeignCluster is cordoned loses the annotation, so
	// that a later manual cordon stays.
	cordonCluster(true)
	w.expect("patch Node liqo-milan")
	byHand(false)
	cordonCluster(false)
	w.expect("patch Node liqo-milan")
	w.expect()
	node := kittest.Read(w.Cluster, "", "liqo-milan", &corev1.Node{})
	if _, held := node.Annotations[v1alpha1.AnnotationCordoned]; held || node.Spec.Unschedulable {
		t.Errorf("unschedulable %t, annotations %v", node.Spec.Unschedulable, node.Annotations)
	}

	byHand(true)
	cordonCluster(true)
	w.expect()
	cordonCluster(false)
	w.expect()
}

func TestCordonedClusterHasNoNewNodes(t *testing.T) {
	w := newWorld(t)
	w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.Cordoned = true })
	w.deploy()
	if w.deployment() != nil {
		t.Error("the virtual kubelet is deployed")
	}
	if c := w.condition(v1alpha1.ConditionVirtualKubeletAvailable); c == nil || c.Reason != ReasonCordoned {
		t.Errorf("VirtualKubeletAvailable is %v", c)
	}
	w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.Cordoned = false })
	w.deploy()
	if w.deployment() == nil {
		t.Error("the virtual kubelet is not deployed after the cordon")
	}
}

func TestConditionNamesWhyNoKubeletIsDeployed(t *testing.T) {
	for _, test := range []struct {
		name, reason string
		change       func(*world)
	}{
		{"no image", ReasonNoImage, func(w *world) { w.VirtualKubelet.Image = "" }},
		{"the name is taken", ReasonClusterRoleBindingConflict, func(w *world) {
			w.Add(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: []rbacv1.Subject{
				{Kind: rbacv1.ServiceAccountKind, Namespace: "liqo-peer-other", Name: kubelet},
			}})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.change(w)
			w.deploy()
			condition := w.condition(v1alpha1.ConditionVirtualKubeletAvailable)
			if condition.Reason != test.reason || !strings.HasSuffix(condition.Message, ".") || w.deployment() != nil {
				t.Errorf("condition %+v", condition)
			}
		})
	}
}

func TestVirtualNodeHasTheAPIAccessOfItsForeignCluster(t *testing.T) {
	const given, disabled = v1alpha1.APIAccessConsumer, v1alpha1.APIAccessDisabled
	for _, test := range []struct {
		name          string
		trust         v1alpha1.PeeringTrust
		installed, of v1alpha1.APIAccess
		// without means that no URL of the API server is configured.
		without bool
		want    v1alpha1.APIAccess
	}{
		{name: "version v0.1.0", want: given},
		{name: "same owner", trust: v1alpha1.TrustSameOwner, want: given},
		{name: "tenant", trust: v1alpha1.TrustTenant, want: disabled},
		{name: "tenant and the value", trust: v1alpha1.TrustTenant, installed: given, want: given},
		{name: "same owner and the value", trust: v1alpha1.TrustSameOwner, installed: disabled, want: disabled},
		{name: "the field", trust: v1alpha1.TrustTenant, installed: disabled, of: given, want: given},
		{name: "no URL of the API server", trust: v1alpha1.TrustSameOwner, of: given, without: true, want: disabled},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.APIAccess = test.installed
			if !test.without {
				w.VirtualKubelet.ConsumerAPIServer = "https://192.0.2.7:6443"
			}
			w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.Trust, fc.Spec.APIAccess = test.trust, test.of })
			for w.virtual().Status.APIAccess == "" {
				if w.deployment() != nil {
					t.Fatal("a virtual kubelet is deployed before the access is known")
				}
				if writes, err := w.pass(); err != nil || len(writes) == 0 {
					t.Fatalf("writes %v, error %v", writes, err)
				}
			}
			w.deploy()
			if got := w.virtual().Status.APIAccess; got != test.want {
				t.Errorf("access %q, want %q", got, test.want)
			}
			w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.APIAccess = disabled })
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			if got := w.virtual().Status.APIAccess; got != disabled {
				t.Errorf("access %q after a change", got)
			}
		})
	}
}

func TestVirtualNodeReportsTheNetwork(t *testing.T) {
	for phase, want := range map[v1alpha1.PeeringPhase]string{
		"": "False NoNetwork", v1alpha1.PeeringNone: "False NoNetwork", v1alpha1.PeeringPending: "False NoNetwork",
		v1alpha1.PeeringEstablished: "True NetworkReady",
	} {
		w := newWorld(t)
		w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Status.Networking = phase })
		w.deploy()
		condition := w.condition(v1alpha1.ConditionNetworkReady)
		if got := string(condition.Status) + " " + condition.Reason; got != want {
			t.Errorf("networking %q: %s, want %s", phase, got, want)
		}
	}
}

// With networking Flat, a provider reports any address that is not refused.
func TestFlatNetworkOfATenantRequiresTheRangesOfLocalPods(t *testing.T) {
	pods := func(source v1alpha1.ClusterRangeSource) []v1alpha1.ClusterRange {
		return []v1alpha1.ClusterRange{{Use: v1alpha1.RangeOfPods, CIDR: "10.2.0.0/24", Source: source}}
	}
	for _, test := range []struct {
		name       string
		trust      v1alpha1.PeeringTrust
		networking v1alpha1.NetworkingMode
		ranges     []v1alpha1.ClusterRange
		refused    []string
		want       string
	}{
		{"known", v1alpha1.TrustTenant, "", pods(v1alpha1.SourceNode), nil, "True NetworkReady"},
		{"derived from running pods", v1alpha1.TrustTenant, "", pods(v1alpha1.SourcePod), nil, "False PodRangesUnknown"},
		{"derived from running pods within refused CIDRs", v1alpha1.TrustTenant, "", pods(v1alpha1.SourcePod),
			[]string{"10.2.0.0/16"}, "True NetworkReady"},
		{"none", v1alpha1.TrustTenant, "", nil, []string{"10.2.0.0/16"}, "False PodRangesUnknown"},
		{"the same owner", v1alpha1.TrustSameOwner, "", pods(v1alpha1.SourcePod), nil, "True NetworkReady"},
		{"a peering of v0.1.0", "", "", pods(v1alpha1.SourcePod), nil, "True NetworkReady"},
		{"a tunnel", v1alpha1.TrustTenant, v1alpha1.NetworkingTunnel, pods(v1alpha1.SourcePod), nil, "True NetworkReady"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.Networking, w.RefusedEndpointCIDRs = v1alpha1.NetworkingFlat, test.refused
			w.Add(&v1alpha1.ClusterInfo{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterInfoName},
				Status: v1alpha1.ClusterInfoStatus{Ranges: test.ranges}})
			w.changeCluster(func(fc *v1alpha1.ForeignCluster) {
				fc.Spec.Trust, fc.Spec.Networking = test.trust, test.networking
				fc.Status.Networking = v1alpha1.PeeringEstablished
			})
			w.deploy()
			condition := w.condition(v1alpha1.ConditionNetworkReady)
			if got := string(condition.Status) + " " + condition.Reason; got != test.want {
				t.Errorf("condition NetworkReady is %s, want %s", got, test.want)
			}
		})
	}
}

func TestVirtualNodeReportsTheMappingsOfItsTunnel(t *testing.T) {
	local := []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.2.0.0/16"}}
	remote := []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.1.0.0/16"}}
	agreed := &v1alpha1.TunnelEndpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: "milan"},
		Spec:       v1alpha1.TunnelEndpointSpec{ClusterID: milanID, Local: local, Remote: remote},
	}
	other := agreed.DeepCopy()
	other.Spec.ClusterID = "another"
	for _, test := range []struct {
		name         string
		installation v1alpha1.NetworkingMode
		cluster      v1alpha1.NetworkingMode
		tunnel       *v1alpha1.TunnelEndpoint
		want         *v1alpha1.VirtualNodeNetwork
	}{
		{"no tunnel", v1alpha1.NetworkingFlat, "", agreed, nil},
		{"no tunnel to this cluster", v1alpha1.NetworkingTunnel, v1alpha1.NetworkingFlat, agreed, nil},
		{
			"of the tunnel", v1alpha1.NetworkingTunnel, "", agreed,
			&v1alpha1.VirtualNodeNetwork{Local: local, Remote: remote},
		},
		{"before the mappings are agreed on", "", v1alpha1.NetworkingTunnel, nil, &v1alpha1.VirtualNodeNetwork{}},
		{"of a tunnel to another cluster", v1alpha1.NetworkingTunnel, "", other, &v1alpha1.VirtualNodeNetwork{}},
	} {
		w := newWorld(t)
		w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.Networking = test.cluster })
		w.Networking = test.installation
		if test.tunnel != nil {
			w.Add(test.tunnel.DeepCopy())
		}
		w.deploy()
		if diff := cmp.Diff(test.want, w.virtual().Status.Network); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
