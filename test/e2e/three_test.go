// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// hub has rome's tunnel to each of its two providers, the leaves, which are not peered with each
// other.
type hub map[*harness.Cluster]fabric

// hubAndLeaves peers rome with two providers. All three clusters have the same CIDRs. Pods of an
// application on all three clusters must reach each other and rome's API server. At the end,
// nothing may be left on any cluster after the uninstallation.
func hubAndLeaves(t *testing.T) {
	before := map[*harness.Cluster]map[string]string{}
	for _, c := range clusters {
		before[c] = must(kernels(t.Context(), c))(t)
	}
	for c, region := range map[*harness.Cluster]string{rome: "centre", milan: "north", naples: "south"} {
		installs(t, c, region, tunnelValues(t, c)...)
	}
	h := hub{}
	for _, leaf := range leaves() {
		peers(t, rome, leaf)
	}
	for _, leaf := range leaves() {
		h[leaf] = agreedBetween(t, rome, leaf)
	}
	virtualNodesAre(t, nodeOf(milan), nodeOf(naples))
	steps := []step{
		{name: "PlacesPods", run: func(t *testing.T) { placesPods(t, rome) }},
		{name: "LeavesReachEachOther", run: h.leavesReachEachOther},
		{name: "ConsumersAPIServerThroughTunnels", run: consumersAPIServerThroughTunnels},
		{name: "ShopOverThreeClusters", run: shopOverThreeClusters},
		{name: "MovesBetweenProviders", run: movesBetweenProviders},
	}
	if *databases {
		steps = append(steps, step{name: "ADatabaseMovesBetweenProviders", run: aDatabaseMovesBetweenProviders})
	}
	for _, leaf := range leaves() {
		steps = append(steps,
			step{name: "PodsAndNodesOfRomeAnd" + leaf.Name, run: h[leaf].podsAndNodes},
			step{name: "ServicesOfRomeAnd" + leaf.Name, run: h[leaf].services},
			step{name: "MapsNodeAddressesOf" + leaf.Name, run: h[leaf].mapsNodeAddresses},
			step{name: "MapsNonPodEndpointsFor" + leaf.Name, run: h[leaf].mapsNonPodEndpoints})
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			t.Cleanup(func() { collect(t) })
			step.run(t)
		})
	}
	collect(t)

	for _, leaf := range leaves() {
		kubectl(t, rome, "delete", "--raw", group+"foreignclusters/"+leaf.Name+"/peer")
	}
	for _, c := range clusters {
		hasNoPeers(t, c)
		hasNoTunnels(t, c)
	}
	for _, c := range clusters {
		if err := c.Uninstall(t.Context()); err != nil {
			t.Fatal(err)
		}
		kubectl(t, c, "delete", "namespace", harness.Namespace, "--ignore-not-found")
	}
	for _, c := range clusters {
		isAsBefore(t, c, uninstalled[c], func(metav1.ObjectMeta) bool { return false })
		kernelsAre(t, c, before[c])
	}
}

// leaves are rome's providers.
func leaves() []*harness.Cluster { return clusters[1:] }

// nodeOf returns the name of the virtual node of a leaf.
func nodeOf(leaf *harness.Cluster) string { return "liqo-" + leaf.Name }

// part is one pod of an application. caller is the running pod with its cluster, and local is the
// local pod on rome.
type part struct {
	caller
	local *corev1.Pod
}

// runsOn runs a pod on a cluster. The name of the pod is the name of the cluster.
func runsOn(t *testing.T, o offload, c *harness.Cluster, spec corev1.PodSpec) part {
	t.Helper()
	namespace := o.namespace
	if c == rome {
		spec.Affinity = whereVirtual(corev1.NodeSelectorOpDoesNotExist)
	} else {
		namespace = o.remote
		spec.NodeSelector = map[string]string{corev1.LabelHostname: nodeOf(c)}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: c.Name,
		Labels: map[string]string{"app": "web", "run": c.Name}}, Spec: spec}
	must(rome.Kube.CoreV1().Pods(o.namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	local := podReady(t, rome, o.namespace, c.Name)
	return part{caller{c, podReady(t, c, namespace, c.Name)}, local}
}

// leavesReachEachOther checks that pods on rome and on each leaf reach each other by Services and
// by addresses. Pods on leaves reach pods on the other leaf through rome, by external addresses
// that rome allocates while the pods exist.
func (h hub) leavesReachEachOther(t *testing.T) {
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	parts := map[*harness.Cluster]part{}
	for _, c := range clusters {
		parts[c] = runsOn(t, o, c, podSpec("serve"))
		serviceOf(t, o, c.Name, map[string]string{"run": c.Name}, "")
	}
	serviceOf(t, o, "all", map[string]string{"app": "web"}, corev1.ClusterIPNone)
	serviceOf(t, o, "any", map[string]string{"app": "web"}, "")
	// Packets on the longest path use the overlay on both leaves.
	for _, leaf := range leaves() {
		if must(activeGateway(t.Context(), leaf))(t) == parts[leaf].pod.Spec.NodeName {
			podsReady(t, leaf, harness.Namespace, "app.kubernetes.io/name="+v1alpha1.GatewayName, 2)
			endsActiveGateway(t, leaf)
		}
	}
	given := externalAddressesAre(t, mappingKey(naples, parts[milan]), mappingKey(milan, parts[naples]))
	external := netip.MustParsePrefix("10.70.0.0/24")
	for key, address := range given {
		if a := must(netip.ParseAddr(address))(t); !external.Contains(a) {
			t.Errorf("%s has the address %s, which is not in %s", key, address, external)
		}
	}

	for _, caller := range parts {
		var all []string
		for _, called := range parts {
			address := h.calls(t, caller, called, given)
			all = append(all, address)
			caller.prints(t, "hello from "+called.cluster.Name, "get", "http://any:8080/")
			if caller.cluster == called.cluster {
				continue
			}
			for _, host := range []string{called.cluster.Name, address} {
				caller.prints(t, "hello from "+called.cluster.Name, "get", "http://"+host+":8080/")
			}
			caller.prints(t, "100000000", "count", "http://"+called.cluster.Name+":8080/zeros/100000000")
			caller.prints(t, "8192", "udp", address+":8080", "8192")
			caller.prints(t, h.sourceAddress(t, caller, called), "get", "http://"+address+":8080/client")
			port := nodePort(t, caller.cluster, caller.pod.Namespace, called.cluster.Name)
			for _, node := range realNodes(t, caller.cluster) {
				answersNode(t, node, "http://"+address+":8080/", "hello from "+called.cluster.Name)
				answersOutside(t, "http://"+nodeAddress(node)+":"+port+"/", "hello from "+called.cluster.Name)
			}
		}
		caller.prints(t, looksUp(all...), "lookup", "all")
	}

	// When a pod is deleted, its external addresses are released, and other pods keep theirs.
	kubectl(t, rome, "delete", "pod", naples.Name, "-n", o.namespace, "--timeout=110s")
	externalAddressesAre(t, mappingKey(naples, parts[milan]))
	parts[milan].prints(t, looksUp(h.calls(t, parts[milan], parts[rome], given), parts[milan].pod.Status.PodIP),
		"lookup", "all")
	kubectl(t, rome, "delete", "pods", "--all", "-n", o.namespace, "--timeout=110s")
	externalAddressesAre(t)
}

// calls returns the address at which the pod called is reached by the pod caller. given has the
// external addresses by mappingKey.
func (h hub) calls(t *testing.T, caller, called part, given map[string]string) string {
	t.Helper()
	switch {
	case caller.cluster == called.cluster:
		return called.pod.Status.PodIP
	case caller.cluster == rome:
		address := h[called.cluster].seenFrom(t, rome, called.pod.Status.PodIP)
		if called.local.Status.PodIP != address {
			t.Errorf("on rome, pod %s has the address %s, want %s", called, called.local.Status.PodIP, address)
		}
		return address
	case called.cluster == rome:
		return h[caller.cluster].seenFrom(t, caller.cluster, called.pod.Status.PodIP)
	default:
		return h[caller.cluster].seenFrom(t, caller.cluster, given[mappingKey(caller.cluster, called)])
	}
}

// sourceAddress returns the source address of packets from caller at called. Between leaves it is
// the address of rome's nodes, because a leaf has no addresses for pods of the other leaf.
func (h hub) sourceAddress(t *testing.T, caller, called part) string {
	t.Helper()
	switch {
	case called.cluster == rome:
		return h[caller.cluster].seenFrom(t, rome, caller.pod.Status.PodIP)
	case caller.cluster == rome:
		return h[called.cluster].seenFrom(t, called.cluster, caller.pod.Status.PodIP)
	default:
		return h[called.cluster].sourceOfNodes(t, called.cluster)
	}
}

// mappingKey returns the key of an external address in the result of externalAddressesAre: the leaf
// that uses it, and the pod that it reaches.
func mappingKey(leaf *harness.Cluster, called part) string {
	return leaf.Name + " reaches " + called.local.Status.PodIP
}

// externalAddressesAre waits until rome has allocated exactly these external addresses, each as
// "leaf reaches address", and returns them by that text.
func externalAddressesAre(t *testing.T, want ...string) map[string]string {
	t.Helper()
	names := map[string]string{}
	for _, leaf := range leaves() {
		names[must(leaf.ID(t.Context()))(t)] = leaf.Name
	}
	slices.Sort(want)
	var given map[string]string
	eventually(t, soon, fmt.Sprintf("rome to allocate addresses for %q", want),
		func(ctx context.Context) (bool, string, error) {
			list, err := rome.Federation.FederationV1alpha1().AddressMappings(metav1.NamespaceAll).List(ctx,
				metav1.ListOptions{})
			if err != nil {
				return false, "", err
			}
			given = map[string]string{}
			for _, m := range list.Items {
				if m.Spec.Pool == "external" {
					given[names[m.Spec.ClusterID]+" reaches "+m.Spec.Address] = m.Spec.Mapped
				}
			}
			return slices.Equal(slices.Sorted(maps.Keys(given)), want), show(given), nil
		})
	return given
}

// consumersAPIServerThroughTunnels checks that a pod on each leaf can read its local pod from
// rome's API server. The pod uses the address of rome's Service kubernetes, which is also the
// address of the same Service on the leaf. It reaches no other port of that address.
func consumersAPIServerThroughTunnels(t *testing.T) {
	api := must(rome.Kube.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "kubernetes",
		metav1.GetOptions{}))(t).Spec.ClusterIP
	server := "https://" + api + ":443"
	// Later steps run with the default values, also if this step fails.
	t.Cleanup(func() {
		if t.Failed() {
			collect(t)
			setsValues(t, rome, "consumerAPIServer=", "consumerAPIServerThroughTunnels=false")
		}
	})
	setsValues(t, rome, "consumerAPIServer="+server, "consumerAPIServerThroughTunnels=true")
	o := offloaded(t, remoteOnly)
	grantReading(t, o.namespace, "reader")
	parts := map[*harness.Cluster]part{}
	for _, leaf := range leaves() {
		kubeletUsesAPIServer(t, server, leaf)
		spec := podSpec("serve")
		spec.ServiceAccountName = "reader"
		parts[leaf] = runsOn(t, o, leaf, spec)
	}
	var given []string
	for _, leaf := range leaves() {
		given = append(given, leaf.Name+" reaches "+api)
		for at, p := range parts {
			if at != leaf {
				given = append(given, mappingKey(leaf, p))
			}
		}
	}
	externalAddressesAre(t, given...)
	for _, p := range parts {
		p.readsItself(t, p.local)
		if result := p.requestAPI(t.Context(), "/api/v1/namespaces/"+o.namespace+"/secrets"); result.Code == 0 {
			t.Errorf("%s reads Secrets, which its ServiceAccount may not", p)
		}
	}
	otherPorts := []string{"22", "10250"}
	servesOtherPorts(t, api, otherPorts...)
	for _, p := range parts {
		run := func(args ...string) string {
			return strings.TrimSpace(kubectl(t, p.cluster,
				append([]string{"exec", "-n", p.pod.Namespace, p.pod.Name, "--", tester}, args...)...))
		}
		mapped := run("lookup", run("env", "KUBERNETES_SERVICE_HOST"))
		if mapped == api {
			t.Errorf("%s uses %s, which is an address of %s", p, api, p.cluster.Name)
		}
		for _, port := range otherPorts {
			p.isRefused(t, "http://"+mapped+":"+port+"/")
		}
		p.readsItself(t, p.local)
	}
	kubectl(t, rome, "delete", "pods", "--all", "-n", o.namespace, "--timeout=110s")
	setsValues(t, rome, "consumerAPIServer=", "consumerAPIServerThroughTunnels=false")
	externalAddressesAre(t)
}

// servesOtherPorts runs a pod on rome that is also reached at an address of another Service of rome, at ports that this
// Service does not have, and waits until it answers nodes at each of them.
func servesOtherPorts(t *testing.T, address string, ports ...string) {
	t.Helper()
	namespace := namespaceOn(t, rome)
	spec := podSpec("serve")
	spec.Affinity = whereVirtual(corev1.NodeSelectorOpDoesNotExist)
	labels := map[string]string{"run": "other-ports"}
	must(rome.Kube.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "other-ports", Labels: labels}, Spec: spec}, metav1.CreateOptions{}))(t)
	podReady(t, rome, namespace, "other-ports")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "other-ports"},
		Spec: corev1.ServiceSpec{Selector: labels, ExternalIPs: []string{address}}}
	for _, port := range ports {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: "port-" + port,
			Port: int32(must(strconv.Atoi(port))(t)), TargetPort: intstr.FromInt32(8080)})
	}
	must(rome.Kube.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{}))(t)
	for _, node := range realNodes(t, rome) {
		for _, port := range ports {
			answersNode(t, node, "http://"+address+":"+port+"/", "hello from other-ports")
		}
	}
}

// hasNoPeers waits until a cluster has no ForeignClusters and no AddressMappings.
func hasNoPeers(t *testing.T, c *harness.Cluster) {
	t.Helper()
	eventually(t, soon, c.Name+" to have no peers", func(ctx context.Context) (bool, string, error) {
		peers, err := c.Federation.FederationV1alpha1().ForeignClusters().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		mappings, err := c.Federation.FederationV1alpha1().AddressMappings(metav1.NamespaceAll).List(ctx,
			metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		return len(peers.Items)+len(mappings.Items) == 0, show(peers.Items) + show(mappings.Items), nil
	})
}

// shopOverThreeClusters runs the sample shop with one of its services on each leaf, and buys a
// product.
func shopOverThreeClusters(t *testing.T) {
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	kubectl(t, rome, "apply", "-n", o.namespace, "-f", filepath.Join(playground.Root, "artifacts", "samples", "shop.yaml"))
	for app, leaf := range map[string]*harness.Cluster{"cart": milan, "prices": naples} {
		kubectl(t, rome, "patch", "deployment", app, "-n", o.namespace, "--type=merge",
			"-p", fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{%q:%q}}}}}`, corev1.LabelHostname, nodeOf(leaf)))
		kubectl(t, rome, "rollout", "status", "deployment", app, "-n", o.namespace, "--timeout", soon.String())
	}
	shopRuns(t, o)
	shopSells(t, o)
}
