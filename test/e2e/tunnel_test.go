// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// kernelsAre waits until each node of a cluster holds of ours what it held
// before.
func kernelsAre(t *testing.T, c *harness.Cluster, before map[string]string) {
	t.Helper()
	eventually(t, soon, "the nodes of "+c.Name+" to be as they were", func(ctx context.Context) (bool, string, error) {
		now, err := kernels(ctx, c)
		if err != nil {
			return false, "", err
		}
		for node, was := range before {
			if is := now[node]; is != was {
				return false, fmt.Sprintf("%s has\n%s\nand had\n%s", node, is, was), nil
			}
		}
		return true, "", nil
	})
}

// hasNoTunnels waits until a cluster has no TunnelEndpoint.
func hasNoTunnels(t *testing.T, c *harness.Cluster) {
	t.Helper()
	eventually(t, soon, c.Name+" to have no tunnel", func(ctx context.Context) (bool, string, error) {
		list, err := c.Federation.FederationV1alpha1().TunnelEndpoints(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		return len(list.Items) == 0, show(list.Items), nil
	})
}

// withoutNetwork takes back what tunnelValues say, and then what the controllers
// keep until somebody deletes it. It does so also when the test is over, whose
// context has ended then.
func withoutNetwork(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 6*soon)
	defer cancel()
	for _, c := range []*harness.Cluster{rome, milan} {
		// To helm, null is what it was before, and {} a list of one empty word.
		helmUpgrade(t, c, "--reuse-values", "--wait", "--timeout=3m", "--set=networking=None", "--set=network.enabled=false",
			"--set=network.gateway.service.enabled=false", "--set-json=network.podCIDRs=[]", "--set-json=network.externalCIDRs=[]", "--set-json=network.endpoints=[]")
		// The one before would make them anew.
		if _, err := podsAreReady(ctx, c, harness.Namespace, "app.kubernetes.io/name=federation-controller-manager", 1); err != nil {
			t.Error(err)
		}
		for _, kept := range [][]string{
			{"addresspools.federation.liqo.io", "--selector=" + v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy},
			{"secret", "federation-wireguard", "--namespace=" + harness.Namespace, "--ignore-not-found"},
		} {
			if err := c.Kubectl(ctx, append([]string{"delete"}, kept...)...).Err; err != nil {
				t.Errorf("on %s: %v", c.Name, err)
			}
		}
	}
}

// tunnelValues are what the administrator of a cluster says of its network.
func tunnelValues(t *testing.T, c *harness.Cluster) []string {
	t.Helper()
	nodes := netip.PrefixFrom(must(netip.ParseAddr(nodeAddress(realNodes(t, c)[0])))(t), 24).Masked()
	services := must(c.Kube.NetworkingV1().ServiceCIDRs().Get(t.Context(), "kubernetes", metav1.GetOptions{}))(t).Spec.CIDRs
	values := []string{
		"networking=Tunnel", "network.enabled=true", "network.gateway.tolerations[0].operator=Exists",
		"network.podCIDRs={" + podCIDR(c) + "}",
		"network.serviceCIDRs={" + strings.Join(services, `\,`) + "}",
		"network.nodeCIDRs={" + nodes.String() + "}",
		calledAtItsNodes(t, c),
	}
	if *layout == "three" {
		values = append(values, "network.externalCIDRs={10.70.0.0/24}")
	} // else it takes them for itself
	return values
}

// calledAtItsNodes has the gateway of a cluster called at the addresses of its
// nodes.
func calledAtItsNodes(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	var endpoints []string
	for _, node := range realNodes(t, c) {
		endpoints = append(endpoints, nodeAddress(node)+":51820")
	}
	return "network.endpoints={" + strings.Join(endpoints, ",") + "}"
}

func podCIDR(c *harness.Cluster) string {
	if c == milan && *layout == "disjoint" {
		return "10.80.0.0/16"
	}
	return "10.244.0.0/16"
}

func realNodes(t *testing.T, c *harness.Cluster) []corev1.Node {
	t.Helper()
	return must(c.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: isReal}))(t).Items
}

// isReal selects the nodes that are no virtual ones.
const isReal = v1alpha1.LabelType + "!=" + v1alpha1.TypeVirtualNode

func nodeAddress(node corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// ours is what the names of our links, chains and namespace begin with.
var ours = regexp.MustCompile(`\bliqo\.[a-z]|\bLIQO-|\bliqo-netns`)

// kernels is what our agents could leave on each node of a cluster: links, rules,
// namespaces, and chains of iptables.
func kernels(ctx context.Context, c *harness.Cluster) (map[string]string, error) {
	nodes, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: isReal})
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, node := range nodes.Items {
		var holds []string
		for _, command := range []string{
			"ip -o link show", "ip rule show", "ip -6 rule show", "ip route show table all proto 58", "ip netns list", "iptables-save", "ip6tables-save",
		} {
			output, err := playground.Exec(ctx, node.Name, strings.Fields(command)...)
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", command, node.Name, err)
			}
			for line := range strings.Lines(output) {
				if ours.MatchString(line) || strings.HasSuffix(command, "rule show") || strings.Contains(command, "proto") {
					holds = append(holds, line)
				}
			}
		}
		all[node.Name] = strings.Join(holds, "")
	}
	return all, nil
}

// fabric is what two clusters have agreed upon: how each sees the other's
// ranges.
type fabric struct {
	between [2]*harness.Cluster
	sees    map[*harness.Cluster][]v1alpha1.CIDRMapping
}

// agreed waits until rome and milan say that the tunnel is established.
func agreed(t *testing.T) fabric {
	t.Helper()
	return agreedBetween(t, rome, milan)
}

// agreedBetween waits until two clusters say so.
func agreedBetween(t *testing.T, a, b *harness.Cluster) fabric {
	t.Helper()
	f := fabric{between: [2]*harness.Cluster{a, b}, sees: map[*harness.Cluster][]v1alpha1.CIDRMapping{}}
	for _, c := range f.between {
		other := f.otherThan(c)
		networkingWith(t, c, other, v1alpha1.PeeringEstablished)
		te := must(c.Federation.FederationV1alpha1().TunnelEndpoints(harness.Namespace).Get(t.Context(), other.Name, metav1.GetOptions{}))(t)
		f.sees[c] = te.Spec.Remote
		external := must(c.Federation.FederationV1alpha1().AddressPools().Get(t.Context(), "external", metav1.GetOptions{}))(t).Spec.CIDRs
		for _, m := range te.Spec.Remote {
			remapped := m.CIDR != m.Mapped
			if conflict := podCIDR(c) == m.CIDR || slices.Contains(external, m.CIDR); remapped != conflict {
				t.Errorf("%s calls %s of %s %s", c.Name, m.CIDR, other.Name, m.Mapped)
			}
		}
		eventually(t, soon, "kubectl get te to show a latency on "+c.Name, func(ctx context.Context) (bool, string, error) {
			out := c.Kubectl(ctx, "get", "te", other.Name, "-n", harness.Namespace, "-o", "wide", "--no-headers")
			return regexp.MustCompile(`Connected +[0-9.]+[µm]?s `).MatchString(out.Stdout), out.Stdout, out.Err
		})
	}
	return f
}

// otherThan is the cluster at the other end of the tunnel.
func (f fabric) otherThan(c *harness.Cluster) *harness.Cluster {
	if c == f.between[0] {
		return f.between[1]
	}
	return f.between[0]
}

// seenFrom is an address of the other cluster as c sees it.
func (f fabric) seenFrom(t *testing.T, c *harness.Cluster, address string) string {
	t.Helper()
	a := must(netip.ParseAddr(address))(t)
	for _, m := range f.sees[c] {
		own, mapped := must(netip.ParsePrefix(m.CIDR))(t), must(netip.ParsePrefix(m.Mapped))(t)
		if !own.Contains(a) {
			continue
		}
		within := ^uint32(0) >> own.Bits()
		bytes, base := a.As4(), mapped.Addr().As4()
		binary.BigEndian.PutUint32(bytes[:], binary.BigEndian.Uint32(base[:])&^within|binary.BigEndian.Uint32(bytes[:])&within)
		return netip.AddrFrom4(bytes).String()
	}
	t.Fatalf("%s sees %s nowhere: %s", c.Name, address, show(f.sees[c]))
	return ""
}

// standsForNodes is who a node of the other cluster is to pods of c.
func (f fabric) standsForNodes(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	return f.seenFrom(t, c, must(netip.ParsePrefix(podCIDR(f.otherThan(c))))(t).Addr().String())
}

// caller is a pod that calls others, by kubectl of its cluster.
type caller struct {
	cluster *harness.Cluster
	pod     *corev1.Pod
}

func (c caller) String() string { return c.pod.Name + " on " + c.cluster.Name }

// says runs the tester in the pod until it prints what is wanted.
func (c caller) says(t *testing.T, want string, args ...string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%q of %s to print %q", strings.Join(args, " "), c, want), func(ctx context.Context) (bool, string, error) {
		result := c.cluster.Kubectl(ctx, append([]string{"exec", "-n", c.pod.Namespace, c.pod.Name, "--", tester}, args...)...)
		return strings.TrimSpace(result.Stdout) == want, fmt.Sprintf("%q, %v", result.Stdout, result.Err), nil
	})
}

// onEachNode runs a pod on each node of a cluster, whatever its taints.
func onEachNode(t *testing.T, c *harness.Cluster) []caller {
	t.Helper()
	namespace := namespaceOn(t, c)
	var callers []caller
	for _, node := range realNodes(t, c) {
		spec := podSpec("serve")
		spec.NodeName = node.Name
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "on-" + node.Name}, Spec: spec}
		must(c.Kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
		callers = append(callers, caller{cluster: c, pod: pod})
	}
	for i := range callers {
		callers[i].pod = podReady(t, c, namespace, callers[i].pod.Name)
	}
	return callers
}

// podsAndNodes has every pod call every pod of the other cluster, small and
// large, and each node as well. Neither has been offloaded.
func (f fabric) podsAndNodes(t *testing.T) {
	pods := map[*harness.Cluster][]caller{}
	for _, c := range f.between {
		pods[c] = onEachNode(t, c)
	}
	for _, c := range f.between {
		other := f.otherThan(c)
		for _, from := range pods[c] {
			for _, to := range pods[other] {
				seen := f.seenFrom(t, c, to.pod.Status.PodIP)
				from.says(t, f.seenFrom(t, other, from.pod.Status.PodIP), "get", "http://"+seen+":8080/client")
				from.says(t, "8192", "udp", seen+":8080", "8192")
			}
		}
		seen := f.seenFrom(t, c, awayFromGateway(t, other, pods[other]).pod.Status.PodIP)
		awayFromGateway(t, c, pods[c]).says(t, "100000000", "count", "http://"+seen+":8080/zeros/100000000")
		for _, node := range realNodes(t, c) {
			// A process of the node, as its kubelet is.
			answersNode(t, node, "http://"+seen+":8080/client", f.standsForNodes(t, other))
		}
	}
}

// awayFromGateway is the pod that has the longest way to the other cluster: by
// the overlay to the active gateway, if there is a node without it.
func awayFromGateway(t *testing.T, c *harness.Cluster, pods []caller) caller {
	t.Helper()
	active := must(activeGateway(t.Context(), c))(t)
	return pods[max(0, slices.IndexFunc(pods, func(p caller) bool { return p.pod.Spec.NodeName != active }))]
}

// answersNode has a process of a node ask until it gets an answer.
func answersNode(t *testing.T, node corev1.Node, url, want string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%s to answer node %s with %q", url, node.Name, want), func(ctx context.Context) (bool, string, error) {
		got, err := playground.Exec(ctx, node.Name, "curl", "--silent", "--insecure", "--max-time", "5", url)
		return strings.TrimSpace(got) == want, fmt.Sprintf("%q, %v", got, err), nil
	})
}

// services has pods at home and next door reach each other by the names of
// Services: with backends here, there and on both sides, headless ones by DNS,
// and from outside by the ports of nodes and by the address of a load balancer.
func (f fabric) services(t *testing.T) {
	leaf := f.otherThan(rome)
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	home, away := runsOn(t, o, rome, podSpec("serve")), runsOn(t, o, leaf, podSpec("serve"))
	for name, selector := range map[string]map[string]string{
		"both": {"app": "web"}, "here": {"run": rome.Name}, "there": {"run": leaf.Name},
	} {
		serviceOf(t, o, name, selector, "")
	}
	serviceOf(t, o, "all", map[string]string{"app": "web"}, corev1.ClusterIPNone)
	for name, selector := range map[string]map[string]string{"here-balanced": {"run": rome.Name}, "there-balanced": {"run": leaf.Name}} {
		must(rome.Kube.CoreV1().Services(o.namespace).Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 8080, TargetPort: intstr.FromInt32(8080)}}, Selector: selector,
		}}, metav1.CreateOptions{}))(t)
	}

	atHome, nextDoor := "hello from "+rome.Name, "hello from "+leaf.Name
	for _, from := range []part{home, away} {
		from.says(t, atHome, "get", "http://here:8080/")
		from.says(t, nextDoor, "get", "http://there:8080/")
		for _, want := range []string{atHome, nextDoor} {
			from.says(t, want, "get", "http://both:8080/")
		}
	}
	home.says(t, looksUp(home.pod.Status.PodIP, away.here.Status.PodIP), "lookup", "all")
	away.says(t, looksUp(f.seenFrom(t, leaf, home.pod.Status.PodIP), away.pod.Status.PodIP), "lookup", "all")
	if want := f.seenFrom(t, rome, away.pod.Status.PodIP); away.here.Status.PodIP != want {
		t.Errorf("at home the pod next door has the address %s, want %s as rome sees it", away.here.Status.PodIP, want)
	}

	for _, c := range []struct {
		cluster                  *harness.Cluster
		namespace, service, want string
	}{{rome, o.namespace, "there", nextDoor}, {leaf, o.twin, "here", atHome}} {
		port := nodePort(t, c.cluster, c.namespace, c.service)
		balanced := balances(t, c.cluster, c.namespace, c.service+"-balanced")
		for _, node := range realNodes(t, c.cluster) {
			for path, want := range map[string]string{"": c.want, "client": f.standsForNodes(t, f.otherThan(c.cluster))} {
				answersOutside(t, "http://"+nodeAddress(node)+":"+port+"/"+path, want)
				whileOutside(t, "route", balanced+" via "+nodeAddress(node), func() {
					answersOutside(t, "http://"+balanced+":8080/"+path, want)
				})
			}
		}
	}
}

// nodePort is the port of nodes that leads to the one port of a Service.
func nodePort(t *testing.T, c *harness.Cluster, namespace, service string) string {
	t.Helper()
	return strconv.Itoa(int(must(c.Kube.CoreV1().Services(namespace).Get(t.Context(), service, metav1.GetOptions{}))(t).Spec.Ports[0].NodePort))
}

// outside is what is in no cluster: the router between them.
const outside = "router"

// answersOutside has somebody outside the clusters ask until there is an answer.
func answersOutside(t *testing.T, url, want string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%s to answer %q from outside", url, want), func(ctx context.Context) (bool, string, error) {
		got, err := playground.Exec(ctx, outside, "curl", "--silent", "--max-time", "5", url)
		return strings.TrimSpace(got) == want, fmt.Sprintf("%q, %v", got, err), nil
	})
}

// whileOutside adds something to the network outside the clusters, as "ip" would,
// for as long as do runs.
func whileOutside(t *testing.T, kind, what string, do func()) {
	t.Helper()
	must(playground.Exec(t.Context(), outside, strings.Fields("ip "+kind+" add "+what)...))(t)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if _, err := playground.Exec(ctx, outside, strings.Fields("ip "+kind+" del "+what)...); err != nil {
			t.Error(err)
		}
	}()
	do()
}

// balances gives a Service of type LoadBalancer an address, as the controller of
// a cloud does in its own cluster. What comes to it on a node is led to the
// backends by that node.
func balances(t *testing.T, c *harness.Cluster, namespace, name string) string {
	t.Helper()
	const address = "198.51.100.10"
	eventually(t, soon, "Service "+name+" of "+c.Name+" to have an address", func(ctx context.Context) (bool, string, error) {
		client := c.Kube.CoreV1().Services(namespace)
		service, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error(), nil // it is not reflected yet
		}
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			return false, show(service.Spec), nil
		}
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
		_, err = client.UpdateStatus(ctx, service, metav1.UpdateOptions{})
		return err == nil, fmt.Sprint(err), nil
	})
	return address
}

// looksUp is what the tester prints of a name that has these addresses.
func looksUp(addresses ...string) string {
	slices.Sort(addresses)
	return strings.Join(addresses, "\n")
}

// partOf runs a pod of an application at home or next door.
func partOf(t *testing.T, o offload, name string, virtual corev1.NodeSelectorOperator) caller {
	t.Helper()
	spec := podSpec("serve")
	spec.Affinity = whereVirtual(virtual)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web", "run": name}}, Spec: spec}
	must(rome.Kube.CoreV1().Pods(o.namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	return caller{rome, podReady(t, rome, o.namespace, name)}
}

func serviceOf(t *testing.T, o offload, name string, selector map[string]string, clusterIP string) {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Selector: selector, ClusterIP: clusterIP, Ports: []corev1.ServicePort{{Port: 8080, TargetPort: intstr.FromInt32(8080)}},
	}}
	if clusterIP == "" {
		service.Spec.Type = corev1.ServiceTypeNodePort
	}
	must(rome.Kube.CoreV1().Services(o.namespace).Create(t.Context(), service, metav1.CreateOptions{}))(t)
}

// whatIsNoPod gives rome an address for the node of the other cluster that has
// its API server, and has nodes of rome call that, and pods of rome another
// server on that node.
func (f fabric) whatIsNoPod(t *testing.T) {
	leaf := f.otherThan(rome)
	id := must(rome.ID(t.Context()))(t)
	host, port, _ := strings.Cut(strings.TrimPrefix(leaf.Config.Host, "https://"), ":")
	mappings := leaf.Federation.FederationV1alpha1().AddressMappings(harness.Namespace)
	mapping := &v1alpha1.AddressMapping{
		ObjectMeta: metav1.ObjectMeta{Name: "api-server"},
		Spec:       v1alpha1.AddressMappingSpec{ClusterID: id, Pool: "external", Address: host},
	}
	made := must(mappings.Create(t.Context(), mapping, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := mappings.Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	seen := f.seenFrom(t, rome, made.Spec.Mapped)
	nodes := realNodes(t, leaf)
	server := podSpec("serve")
	server.HostNetwork = true
	server.NodeName = nodes[slices.IndexFunc(nodes, func(n corev1.Node) bool { return nodeAddress(n) == host })].Name
	namespace := namespaceOn(t, leaf)
	must(leaf.Kube.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "outside"}, Spec: server}, metav1.CreateOptions{}))(t)
	podReady(t, leaf, namespace, "outside")
	for _, from := range onEachNode(t, rome) {
		from.says(t, f.seenFrom(t, leaf, from.pod.Status.PodIP), "get", "http://"+seen+":8080/client")
	}
	for _, node := range realNodes(t, rome) {
		answersNode(t, node, "https://"+seen+":"+port+"/livez", "ok")
	}
}

// endpointsThatAreNoPods has a Service of rome lead to a server that is in no
// cluster, and pods next door call it through rome, at that port alone. To the
// server they are the node of rome's gateway.
func (f fabric) endpointsThatAreNoPods(t *testing.T) {
	const server = "203.0.113.7"
	leaf := f.otherThan(rome)
	for _, port := range []string{"8080", "8081"} {
		servesOutside(t, port)
	}
	whileOutside(t, "address", server+"/32 dev lo", func() {
		o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
		away := runsOn(t, o, leaf, podSpec("serve"))
		serviceOf(t, o, "db", nil, "")
		must(rome.Kube.DiscoveryV1().EndpointSlices(o.namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "db", Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{server}}},
			Ports:       []discoveryv1.EndpointPort{{Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
		}, metav1.CreateOptions{}))(t)
		nodes := realNodes(t, rome)
		gateway := nodes[slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == must(activeGateway(t.Context(), rome))(t) })]
		eventually(t, soon, "the server to answer "+away.String()+" as if it was "+gateway.Name, func(ctx context.Context) (bool, string, error) {
			result := away.cluster.Kubectl(ctx, "exec", "-n", away.pod.Namespace, away.pod.Name, "--", tester, "get", "http://db:8080/clientip")
			return strings.HasPrefix(result.Stdout, nodeAddress(gateway)+":"), fmt.Sprintf("%q, %v", result.Stdout, result.Err), nil
		})

		mappings := must(rome.Federation.FederationV1alpha1().AddressMappings(harness.Namespace).List(t.Context(), metav1.ListOptions{}))(t)
		at := slices.IndexFunc(mappings.Items, func(m v1alpha1.AddressMapping) bool {
			return m.Spec.Address == server && m.Spec.ClusterID == must(leaf.ID(t.Context()))(t)
		})
		if at < 0 || len(mappings.Items[at].Spec.Ports) != 1 {
			t.Fatalf("mapped: %s", show(mappings.Items))
		}
		answersNode(t, nodes[0], "http://"+server+":8081/serverport", "8081")
		seen := f.seenFrom(t, leaf, mappings.Items[at].Spec.Mapped)
		if out, err := playground.Exec(t.Context(), realNodes(t, leaf)[0].Name, "curl", "--silent", "--max-time", "3", "http://"+seen+":8081/serverport"); err == nil {
			t.Errorf("%s reaches a port that no Service has: %s", leaf.Name, out)
		}
		kubectl(t, rome, "delete", "service", "-n", o.namespace, "db")
		eventually(t, soon, "the address to be free again", func(ctx context.Context) (bool, string, error) {
			left, err := rome.Federation.FederationV1alpha1().AddressMappings(harness.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, "", err
			}
			return !slices.ContainsFunc(left.Items, func(m v1alpha1.AddressMapping) bool { return m.Spec.Address == server }), show(left.Items), nil
		})
	})
}

// servesOutside runs a server outside the clusters until the test ends. It tells
// who calls it, and at which port.
func servesOutside(t *testing.T, port string) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := playground.Exec(context.WithoutCancel(t.Context()), outside, playground.Bin("agnhost"), "netexec", "--http-port="+port, "--udp-port=-1")
		ended <- err
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if _, err := playground.Exec(ctx, outside, "curl", "--silent", "http://127.0.0.1:"+port+"/exit?timeout=5s"); err != nil {
			t.Errorf("the server outside stays: %v", err)
			return
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	answersOutside(t, "http://127.0.0.1:"+port+"/serverport", port)
}

// gatewaysComeAndGo kills the active gateway of rome while milan is called, and
// says for how long nobody answered: it is started again, or the other one takes
// over. Then the active one is told to end, as when its node is drained, and the
// other one takes over, if there is another node.
func (f fabric) gatewaysComeAndGo(t *testing.T) {
	pods := onEachNode(t, milan)
	url := "http://" + f.seenFrom(t, rome, pods[0].pod.Status.PodIP) + ":8080/"
	nodes := realNodes(t, rome)
	first := must(activeGateway(t.Context(), rome))(t)
	from := nodes[slices.IndexFunc(nodes, func(n corev1.Node) bool { return len(nodes) == 1 || n.Name != first })].Name
	answers := func(ctx context.Context) bool {
		got, err := playground.Exec(ctx, from, "curl", "--silent", "--max-time", "0.25", url)
		return err == nil && strings.HasPrefix(got, "hello from ")
	}
	isReached := func() {
		t.Helper()
		eventually(t, soon, from+" to reach milan", func(ctx context.Context) (bool, string, error) { return answers(ctx), "no answer", nil })
	}
	isReached()
	before := gatewayOn(t, first)
	killed := false
	for _, process := range must(playground.Processes(t.Context(), first))(t) {
		if process.Program() == "federation-gateway" {
			killed = true
			if err := playground.Kill(t.Context(), first, process); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !killed {
		t.Fatalf("no gateway runs on %s", first)
	}
	died := time.Now()
	isReached()
	t.Logf("%s after the gateway on %s was killed, %s reached milan", time.Since(died).Round(10*time.Millisecond), first, from)

	// One that is not back yet cannot take over.
	podThat(t, rome, before.Namespace, before.Name, "be back", func(pod *corev1.Pod) bool {
		return isReady(pod) && restarts(pod) > restarts(before)
	})
	endsActiveGateway(t, rome)
	isReached()
	for _, c := range []*harness.Cluster{rome, milan} {
		networkingIs(t, c, v1alpha1.PeeringEstablished)
	}
}

// activeGateway is the node of a cluster's active gateway; empty between two of
// them.
func activeGateway(ctx context.Context, c *harness.Cluster) (string, error) {
	lease, err := c.Kube.CoordinationV1().Leases(harness.Namespace).Get(ctx, v1alpha1.GatewayName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return ptr.Deref(lease.Spec.HolderIdentity, ""), nil
}

// gatewayOn is the gateway's pod on a node of rome.
func gatewayOn(t *testing.T, node string) *corev1.Pod {
	t.Helper()
	pods, err := rome.Kube.CoreV1().Pods(harness.Namespace).List(t.Context(), metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=" + v1alpha1.GatewayName, FieldSelector: "spec.nodeName=" + node,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 {
		t.Fatalf("%d gateways are on %s", len(pods.Items), node)
	}
	return &pods.Items[0]
}

// endsActiveGateway deletes the pod of a cluster's active gateway, and waits
// until the one of another node is active, if there is another node.
func endsActiveGateway(t *testing.T, c *harness.Cluster) {
	t.Helper()
	first := must(activeGateway(t.Context(), c))(t)
	kubectl(t, c, "delete", "pod", "-n", harness.Namespace, "-l", "app.kubernetes.io/name="+v1alpha1.GatewayName, "--field-selector", "spec.nodeName="+first, "--wait=false")
	if len(realNodes(t, c)) == 1 {
		return
	}
	eventually(t, soon, "the gateway of another node than "+first+" to be active", func(ctx context.Context) (bool, string, error) {
		now, err := activeGateway(ctx, c)
		return now != "" && now != first, now, err
	})
}

// networkingIs waits until rome or milan says so of its network with the other
// one.
func networkingIs(t *testing.T, c *harness.Cluster, phase v1alpha1.PeeringPhase) {
	t.Helper()
	networkingWith(t, c, otherThan(c), phase)
}

// networkingWith waits until a cluster says so of its network with another one.
func networkingWith(t *testing.T, c, other *harness.Cluster, phase v1alpha1.PeeringPhase) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("networking on %s with %s to be %s", c.Name, other.Name, phase), func(ctx context.Context) (bool, string, error) {
		fc, err := c.Federation.FederationV1alpha1().ForeignClusters().Get(ctx, other.Name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return fc.Status.Networking == phase, show(fc.Status), nil
	})
}

// shopOverBothClusters deploys the sample shop at home, sends some of its parts
// next door, and buys: they find each other by the names of their Services.
func (f fabric) shopOverBothClusters(t *testing.T) {
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Local})
	kubectl(t, rome, "apply", "-n", o.namespace, "-f", filepath.Join(playground.Root, "artifacts", "samples", "shop.yaml"))
	shopRuns(t, o)
	kubectl(t, rome, "patch", "namespaceoffloading", v1alpha1.NamespaceOffloadingName, "-n", o.namespace, "--type=merge",
		"-p", `{"spec":{"podOffloadingStrategy":"Remote"}}`)
	parts := "app in (cart,prices,recommend)"
	eventually(t, soon, "parts of the shop to be next door", func(ctx context.Context) (bool, string, error) {
		pods, err := rome.Kube.CoreV1().Pods(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: parts})
		if err != nil {
			return false, "", err
		}
		moved := len(pods.Items) > 0
		for _, pod := range pods.Items {
			if pod.Spec.NodeName != virtualNode {
				moved = false
				if pod.DeletionTimestamp == nil {
					err = errors.Join(err, rome.Kubectl(ctx, "delete", "pod", pod.Name, "-n", o.namespace, "--wait=false").Err)
				}
			}
		}
		return moved, fmt.Sprintf("%d pods", len(pods.Items)), err
	})
	shopRuns(t, o)
	shopSells(t, o)
}
