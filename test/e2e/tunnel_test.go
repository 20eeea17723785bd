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

// kernelsAre waits until each node of a cluster has the same objects of the product in its network
// as in before.
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

// hasNoTunnels waits until a cluster has no TunnelEndpoints.
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

// withoutNetwork disables the network on both clusters, and deletes the objects that the
// controllers keep in that case. It works also after the context of the test has ended.
func withoutNetwork(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 6*soon)
	defer cancel()
	for _, c := range []*harness.Cluster{rome, milan} {
		// Helm keeps the old value if the new one is null, and reads {} as a list with one empty
		// string.
		helmUpgrade(t, c, "--reuse-values", "--wait", "--timeout=3m", "--set=networking=None", "--set=network.enabled=false",
			"--set=network.gateway.service.enabled=false", "--set-json=network.podCIDRs=[]",
			"--set-json=network.externalCIDRs=[]", "--set-json=network.endpoints=[]")
		// The old controller manager would create the deleted pools again, so its replacement has
		// to run first.
		if _, err := podsAreReady(ctx, c, harness.Namespace, "app.kubernetes.io/name=federation-controller-manager",
			1); err != nil {
			t.Error(err)
		}
		for _, kept := range [][]string{
			{"addresspools.federation.liqo.io", "--selector=" + v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy},
			{"secret/" + v1alpha1.WireGuardSecret, "configmap/" + v1alpha1.WireGuardConfigMap,
				"--namespace=" + harness.Namespace, "--ignore-not-found"},
		} {
			if err := c.Kubectl(ctx, append([]string{"delete"}, kept...)...).Err; err != nil {
				t.Errorf("on %s: %v", c.Name, err)
			}
		}
	}
}

// tunnelValues returns the chart values that configure a tunnel on a cluster.
func tunnelValues(t *testing.T, c *harness.Cluster) []string {
	t.Helper()
	nodes := netip.PrefixFrom(must(netip.ParseAddr(nodeAddress(realNodes(t, c)[0])))(t), 24).Masked()
	values := []string{
		"networking=Tunnel", "network.enabled=true", "network.gateway.tolerations[0].operator=Exists",
		"network.nodeCIDRs={" + nodes.String() + "}",
		nodeEndpoints(t, c),
	}
	if !detectsRanges(c) {
		services := must(c.Kube.NetworkingV1().ServiceCIDRs().Get(t.Context(), "kubernetes",
			metav1.GetOptions{}))(t).Spec.CIDRs
		values = append(values, "network.podCIDRs={"+podCIDR(c)+"}",
			"network.serviceCIDRs={"+strings.Join(services, `\,`)+"}")
	}
	// Without a value, each cluster allocates its external CIDRs from the pool.
	if *layout == "three" {
		values = append(values, "network.externalCIDRs={10.70.0.0/24}")
	}
	return values
}

// nodeEndpoints returns the chart value that sets the nodes' addresses as endpoints of the gateway.
func nodeEndpoints(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	var endpoints []string
	for _, node := range realNodes(t, c) {
		endpoints = append(endpoints, nodeAddress(node)+":51820")
	}
	return "network.endpoints={" + strings.Join(endpoints, ",") + "}"
}

// detectsRanges reports whether tunnels of a cluster use the ranges of pods and Services that the cluster detects: the
// podCIDRs of its nodes, and its ServiceCIDRs.
func detectsRanges(c *harness.Cluster) bool { return c == milan && *layout == "same" }

// podCIDR returns the CIDR that contains all pods of a cluster.
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

// isReal is a label selector for nodes that are not virtual.
const isReal = v1alpha1.LabelType + "!=" + v1alpha1.TypeVirtualNode

func nodeAddress(node corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// componentNames matches the names of the product's links, chains and network namespaces.
var componentNames = regexp.MustCompile(`\bliqo\.[a-z]|\bLIQO-|\bliqo-netns`)

// kernels returns the objects of the product in the network of each node of a cluster: links,
// rules, network namespaces, and iptables chains.
func kernels(ctx context.Context, c *harness.Cluster) (map[string]string, error) {
	nodes, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: isReal})
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, node := range nodes.Items {
		var holds []string
		for _, command := range []string{
			"ip -o link show", "ip rule show", "ip -6 rule show", "ip route show table all proto 58", "ip netns list",
			"iptables-save", "ip6tables-save",
		} {
			output, err := playground.Exec(ctx, node.Name, strings.Fields(command)...)
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", command, node.Name, err)
			}
			for line := range strings.Lines(output) {
				if componentNames.MatchString(line) || strings.HasSuffix(command, "rule show") ||
					strings.Contains(command, "proto") {
					holds = append(holds, line)
				}
			}
		}
		all[node.Name] = strings.Join(holds, "")
	}
	return all, nil
}

// fabric describes the tunnel between two clusters: for each cluster, the CIDRs of the other one
// and the remapped CIDRs by which it reaches them.
type fabric struct {
	between [2]*harness.Cluster
	sees    map[*harness.Cluster][]v1alpha1.CIDRMapping
}

// agreed waits until rome and milan report an established network with each other, and returns its
// CIDRs.
func agreed(t *testing.T) fabric {
	t.Helper()
	return agreedBetween(t, rome, milan)
}

// agreedBetween waits until two clusters report an established network with each other, and returns
// its CIDRs.
func agreedBetween(t *testing.T, a, b *harness.Cluster) fabric {
	t.Helper()
	f := fabric{between: [2]*harness.Cluster{a, b}, sees: map[*harness.Cluster][]v1alpha1.CIDRMapping{}}
	for _, c := range f.between {
		other := f.otherThan(c)
		networkingWith(t, c, other, v1alpha1.PeeringEstablished)
		te := must(c.Federation.FederationV1alpha1().TunnelEndpoints(harness.Namespace).Get(t.Context(), other.Name,
			metav1.GetOptions{}))(t)
		f.sees[c] = te.Spec.Remote
		external := must(c.Federation.FederationV1alpha1().AddressPools().Get(t.Context(), "external",
			metav1.GetOptions{}))(t).Spec.CIDRs
		for _, m := range te.Spec.Remote {
			remapped, pods := m.CIDR != m.Mapped, must(netip.ParsePrefix(podCIDR(c)))(t)
			conflict := pods.Overlaps(must(netip.ParsePrefix(m.CIDR))(t)) || slices.Contains(external, m.CIDR)
			if remapped != conflict {
				t.Errorf("%s maps %s of %s to %s", c.Name, m.CIDR, other.Name, m.Mapped)
			}
		}
		eventually(t, soon, "kubectl get te to show a latency on "+c.Name, func(ctx context.Context) (bool, string, error) {
			out := c.Kubectl(ctx, "get", "te", other.Name, "-n", harness.Namespace, "-o", "wide", "--no-headers")
			return regexp.MustCompile(`Connected +[0-9.]+[µm]?s `).MatchString(out.Stdout), out.Stdout, out.Err
		})
	}
	return f
}

// otherThan returns the cluster at the other end of the tunnel.
func (f fabric) otherThan(c *harness.Cluster) *harness.Cluster {
	if c == f.between[0] {
		return f.between[1]
	}
	return f.between[0]
}

// seenFrom returns the address by which cluster c reaches an address of the other cluster.
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
		binary.BigEndian.PutUint32(bytes[:],
			binary.BigEndian.Uint32(base[:])&^within|binary.BigEndian.Uint32(bytes[:])&within)
		return netip.AddrFrom4(bytes).String()
	}
	t.Fatalf("%s has no mapping of %s: %s", c.Name, address, show(f.sees[c]))
	return ""
}

// sourceOfNodes returns the source address of packets from nodes of the other cluster at pods of
// cluster c.
func (f fabric) sourceOfNodes(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	return f.seenFrom(t, c, must(netip.ParsePrefix(podCIDR(f.otherThan(c))))(t).Addr().String())
}

// caller is a pod that sends requests by the tester, with its cluster.
type caller struct {
	cluster *harness.Cluster
	pod     *corev1.Pod
}

func (c caller) String() string { return c.pod.Name + " on " + c.cluster.Name }

// prints runs the tester in the pod with args, until its output is want.
func (c caller) prints(t *testing.T, want string, args ...string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%q of %s to print %q", strings.Join(args, " "), c, want),
		func(ctx context.Context) (bool, string, error) {
			result := c.cluster.Kubectl(ctx,
				append([]string{"exec", "-n", c.pod.Namespace, c.pod.Name, "--", tester}, args...)...)
			return strings.TrimSpace(result.Stdout) == want, fmt.Sprintf("%q, %v", result.Stdout, result.Err), nil
		})
}

// onEachNode runs a pod on each node of a cluster, whatever its taints are.
func onEachNode(t *testing.T, c *harness.Cluster) []caller {
	t.Helper()
	return labelledOnEachNode(t, c, namespaceOn(t, c), "on-", nil)
}

// labelledOnEachNode runs a pod with labels on each node of a cluster, whatever its taints are. The pod is called after
// its node, with a prefix.
func labelledOnEachNode(t *testing.T, c *harness.Cluster, namespace, prefix string, labels map[string]string) []caller {
	t.Helper()
	var callers []caller
	for _, node := range realNodes(t, c) {
		spec := podSpec("serve")
		spec.NodeName = node.Name
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: prefix + node.Name, Labels: labels}, Spec: spec}
		must(c.Kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
		callers = append(callers, caller{cluster: c, pod: pod})
	}
	for i := range callers {
		callers[i].pod = podReady(t, c, namespace, callers[i].pod.Name)
	}
	return callers
}

// podsAndNodes checks that every pod and node of one cluster reaches every pod of the other
// cluster, with small and large packets. The pods are not offloaded.
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
				from.prints(t, f.seenFrom(t, other, from.pod.Status.PodIP), "get", "http://"+seen+":8080/client")
				from.prints(t, "8192", "udp", seen+":8080", "8192")
			}
		}
		seen := f.seenFrom(t, c, awayFromGateway(t, other, pods[other]).pod.Status.PodIP)
		awayFromGateway(t, c, pods[c]).prints(t, "100000000", "count", "http://"+seen+":8080/zeros/100000000")
		for _, node := range realNodes(t, c) {
			// The request is sent from the network of the node, as a kubelet does.
			answersNode(t, node, "http://"+seen+":8080/client", f.sourceOfNodes(t, other))
		}
	}
}

// awayFromGateway returns a pod whose node does not have the active gateway, so that its packets
// use the overlay. If there is none, it returns any pod.
func awayFromGateway(t *testing.T, c *harness.Cluster, pods []caller) caller {
	t.Helper()
	active := must(activeGateway(t.Context(), c))(t)
	return pods[max(0, slices.IndexFunc(pods, func(p caller) bool { return p.pod.Spec.NodeName != active }))]
}

// answersNode waits until the response to a request from a node is want.
func answersNode(t *testing.T, node corev1.Node, url, want string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%s to answer node %s with %q", url, node.Name, want),
		func(ctx context.Context) (bool, string, error) {
			got, err := playground.Exec(ctx, node.Name, "curl", "--silent", "--insecure", "--max-time", "5", url)
			return strings.TrimSpace(got) == want, fmt.Sprintf("%q, %v", got, err), nil
		})
}

// services checks that local and offloaded pods reach each other by Services with local, remote and
// both kinds of endpoints, by headless Services, and from outside of the clusters by node ports and
// load balancers.
func (f fabric) services(t *testing.T) {
	leaf := f.otherThan(rome)
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	localPod, offloadedPod := runsOn(t, o, rome, podSpec("serve")), runsOn(t, o, leaf, podSpec("serve"))
	for name, selector := range map[string]map[string]string{
		"both": {"app": "web"}, "local": {"run": rome.Name}, "remote": {"run": leaf.Name},
	} {
		serviceOf(t, o, name, selector, "")
	}
	serviceOf(t, o, "all", map[string]string{"app": "web"}, corev1.ClusterIPNone)
	for name, selector := range map[string]map[string]string{"local-balanced": {"run": rome.Name},
		"remote-balanced": {"run": leaf.Name}} {
		must(rome.Kube.CoreV1().Services(o.namespace).Create(t.Context(),
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 8080, TargetPort: intstr.FromInt32(8080)}},
				Selector: selector,
			}}, metav1.CreateOptions{}))(t)
	}

	fromLocal, fromRemote := "hello from "+rome.Name, "hello from "+leaf.Name
	for _, from := range []part{localPod, offloadedPod} {
		from.prints(t, fromLocal, "get", "http://local:8080/")
		from.prints(t, fromRemote, "get", "http://remote:8080/")
		for _, want := range []string{fromLocal, fromRemote} {
			from.prints(t, want, "get", "http://both:8080/")
		}
	}
	localPod.prints(t, looksUp(localPod.pod.Status.PodIP, offloadedPod.local.Status.PodIP), "lookup", "all")
	offloadedPod.prints(t, looksUp(f.seenFrom(t, leaf, localPod.pod.Status.PodIP), offloadedPod.pod.Status.PodIP),
		"lookup", "all")
	if want := f.seenFrom(t, rome, offloadedPod.pod.Status.PodIP); offloadedPod.local.Status.PodIP != want {
		t.Errorf("on rome the offloaded pod has the address %s, want %s", offloadedPod.local.Status.PodIP, want)
	}

	for _, c := range []struct {
		cluster                  *harness.Cluster
		namespace, service, want string
	}{{rome, o.namespace, "remote", fromRemote}, {leaf, o.remote, "local", fromLocal}} {
		port := nodePort(t, c.cluster, c.namespace, c.service)
		balanced := balances(t, c.cluster, c.namespace, c.service+"-balanced")
		for _, node := range realNodes(t, c.cluster) {
			for path, want := range map[string]string{"": c.want, "client": f.sourceOfNodes(t, f.otherThan(c.cluster))} {
				answersOutside(t, "http://"+nodeAddress(node)+":"+port+"/"+path, want)
				whileOutside(t, "route", balanced+" via "+nodeAddress(node), func() {
					answersOutside(t, "http://"+balanced+":8080/"+path, want)
				})
			}
		}
	}
}

// nodePort returns the node port of a Service with one port.
func nodePort(t *testing.T, c *harness.Cluster, namespace, service string) string {
	t.Helper()
	return strconv.Itoa(int(must(c.Kube.CoreV1().Services(namespace).Get(t.Context(), service,
		metav1.GetOptions{}))(t).Spec.Ports[0].NodePort))
}

// outside is the playground's router, which is outside of the clusters.
const outside = "router"

// answersOutside waits until the response to a request from outside of the clusters is want.
func answersOutside(t *testing.T, url, want string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%s to answer %q from outside", url, want),
		func(ctx context.Context) (bool, string, error) {
			got, err := playground.Exec(ctx, outside, "curl", "--silent", "--max-time", "5", url)
			return strings.TrimSpace(got) == want, fmt.Sprintf("%q, %v", got, err), nil
		})
}

// whileOutside adds an object to the network outside of the clusters with the command ip, and
// deletes it when do returns.
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

// balances sets a load balancer address in the status of a Service, as a cloud controller does, and
// returns it. Nodes forward packets for that address to the endpoints.
func balances(t *testing.T, c *harness.Cluster, namespace, name string) string {
	t.Helper()
	const address = "198.51.100.10"
	eventually(t, soon, "Service "+name+" of "+c.Name+" to have an address",
		func(ctx context.Context) (bool, string, error) {
			client := c.Kube.CoreV1().Services(namespace)
			service, err := client.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err.Error(), nil // the Service is not reflected yet
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

// looksUp returns the output of the tester for a DNS name with these addresses.
func looksUp(addresses ...string) string {
	slices.Sort(addresses)
	return strings.Join(addresses, "\n")
}

// partOf runs a pod of an application on a node of rome or on a virtual node.
func partOf(t *testing.T, o offload, name string, virtual corev1.NodeSelectorOperator) caller {
	t.Helper()
	spec := podSpec("serve")
	spec.Affinity = whereVirtual(virtual)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{"app": "web", "run": name}}, Spec: spec}
	must(rome.Kube.CoreV1().Pods(o.namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	return caller{rome, podReady(t, rome, o.namespace, name)}
}

func serviceOf(t *testing.T, o offload, name string, selector map[string]string, clusterIP string) {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Selector: selector, ClusterIP: clusterIP,
		Ports: []corev1.ServicePort{{Port: 8080, TargetPort: intstr.FromInt32(8080)}},
	}}
	if clusterIP == "" {
		service.Spec.Type = corev1.ServiceTypeNodePort
	}
	must(rome.Kube.CoreV1().Services(o.namespace).Create(t.Context(), service, metav1.CreateOptions{}))(t)
}

// mapsNodeAddresses creates an AddressMapping on rome for a node of the other cluster. Nodes of
// rome must reach the API server of that node, and pods of rome must reach a server in its host
// network.
func (f fabric) mapsNodeAddresses(t *testing.T) {
	leaf := f.otherThan(rome)
	host, port, _ := strings.Cut(strings.TrimPrefix(leaf.Config.Host, "https://"), ":")
	seen := f.mapsAddress(t, leaf, host, 8080, int32(must(strconv.Atoi(port))(t)))
	nodes := realNodes(t, leaf)
	servesOnNode(t, leaf, nodes[slices.IndexFunc(nodes,
		func(n corev1.Node) bool { return nodeAddress(n) == host })].Name)
	for _, from := range onEachNode(t, rome) {
		from.prints(t, f.seenFrom(t, leaf, from.pod.Status.PodIP), "get", "http://"+seen+":8080/client")
	}
	for _, node := range realNodes(t, rome) {
		answersNode(t, node, "https://"+seen+":"+port+"/livez", "ok")
	}
}

// mapsAddress creates an AddressMapping of these TCP ports on a cluster, deletes it when the test ends, and returns the
// address at which the other cluster reaches the ports.
func (f fabric) mapsAddress(t *testing.T, c *harness.Cluster, address string, ports ...int32) string {
	t.Helper()
	other := f.otherThan(c)
	mappings := c.Federation.FederationV1alpha1().AddressMappings(harness.Namespace)
	mapping := &v1alpha1.AddressMapping{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
		Spec: v1alpha1.AddressMappingSpec{
			ClusterID: must(other.ID(t.Context()))(t), Pool: "external", Address: address,
		},
	}
	for _, port := range ports {
		mapping.Spec.Ports = append(mapping.Spec.Ports, v1alpha1.AddressMappingPort{Port: port})
	}
	made := must(mappings.Create(t.Context(), mapping, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := mappings.Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return f.seenFrom(t, other, made.Spec.Mapped)
}

// servesOnNode runs a pod on a node that serves requests in the host network.
func servesOnNode(t *testing.T, c *harness.Cluster, node string) {
	t.Helper()
	server := podSpec("serve")
	server.HostNetwork = true
	server.NodeName = node
	namespace := namespaceOn(t, c)
	must(c.Kube.CoreV1().Pods(namespace).Create(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "outside"}, Spec: server}, metav1.CreateOptions{}))(t)
	podReady(t, c, namespace, "outside")
}

// mapsNonPodEndpoints creates a Service of rome whose endpoint is outside of the clusters.
// Offloaded pods must reach the endpoint through rome at this port only, with the address of the
// gateway's node as the source.
func (f fabric) mapsNonPodEndpoints(t *testing.T) {
	const server = publicAddress
	leaf := f.otherThan(rome)
	for _, port := range []string{"8080", "8081"} {
		servesOutside(t, port)
	}
	whileOutside(t, "address", server+"/32 dev lo", func() {
		o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
		offloadedPod := runsOn(t, o, leaf, podSpec("serve"))
		serviceOf(t, o, "db", nil, "")
		must(rome.Kube.DiscoveryV1().EndpointSlices(o.namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "db", Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{server}}},
			Ports:       []discoveryv1.EndpointPort{{Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
		}, metav1.CreateOptions{}))(t)
		nodes := realNodes(t, rome)
		gateway := nodes[slices.IndexFunc(nodes,
			func(n corev1.Node) bool { return n.Name == must(activeGateway(t.Context(), rome))(t) })]
		eventually(t, soon, "the server to answer "+offloadedPod.String()+" with the address of "+gateway.Name,
			func(ctx context.Context) (bool, string, error) {
				result := offloadedPod.cluster.Kubectl(ctx, "exec", "-n", offloadedPod.pod.Namespace, offloadedPod.pod.Name, "--",
					tester, "get", "http://db:8080/clientip")
				return strings.HasPrefix(result.Stdout, nodeAddress(gateway)+":"),
					fmt.Sprintf("%q, %v", result.Stdout, result.Err), nil
			})

		mappings := must(rome.Federation.FederationV1alpha1().AddressMappings(harness.Namespace).List(t.Context(),
			metav1.ListOptions{}))(t)
		at := slices.IndexFunc(mappings.Items, func(m v1alpha1.AddressMapping) bool {
			return m.Spec.Address == server && m.Spec.ClusterID == must(leaf.ID(t.Context()))(t)
		})
		if at < 0 || len(mappings.Items[at].Spec.Ports) != 1 {
			t.Fatalf("mapped: %s", show(mappings.Items))
		}
		answersNode(t, nodes[0], "http://"+server+":8081/serverport", "8081")
		seen := f.seenFrom(t, leaf, mappings.Items[at].Spec.Mapped)
		if out, err := playground.Exec(t.Context(), realNodes(t, leaf)[0].Name, "curl", "--silent", "--max-time", "3",
			"http://"+seen+":8081/serverport"); err == nil {
			t.Errorf("%s reaches a port that no Service has: %s", leaf.Name, out)
		}
		kubectl(t, rome, "delete", "service", "-n", o.namespace, "db")
		eventually(t, soon, "the address to be released", func(ctx context.Context) (bool, string, error) {
			left, err := rome.Federation.FederationV1alpha1().AddressMappings(harness.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, "", err
			}
			return !slices.ContainsFunc(left.Items, func(m v1alpha1.AddressMapping) bool { return m.Spec.Address == server }),
				show(left.Items), nil
		})
	})
}

// servesOutside runs a server outside of the clusters until the test ends. Its responses have the
// address of the client and the port.
func servesOutside(t *testing.T, port string) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := playground.Exec(context.WithoutCancel(t.Context()), outside, playground.Bin("agnhost"), "netexec",
			"--http-port="+port, "--udp-port=-1")
		ended <- err
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if _, err := playground.Exec(ctx, outside, "curl", "--silent",
			"http://127.0.0.1:"+port+"/exit?timeout=5s"); err != nil {
			t.Errorf("stopping the server outside: %v", err)
			return
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	answersOutside(t, "http://127.0.0.1:"+port+"/serverport", port)
}

// gatewaysFailOver kills rome's active gateway while a pod sends requests to milan, and logs the
// interruption. Afterwards it deletes the pod of the active gateway. If there is a gateway on
// another node, it must become active.
func (f fabric) gatewaysFailOver(t *testing.T) {
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
		eventually(t, soon, from+" to reach milan",
			func(ctx context.Context) (bool, string, error) { return answers(ctx), "no answer", nil })
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
	t.Logf("%s after the gateway on %s was killed, %s reached milan",
		time.Since(died).Round(10*time.Millisecond), first, from)

	// A gateway that has not been restarted cannot become active.
	podThat(t, rome, before.Namespace, before.Name, "be restarted", func(pod *corev1.Pod) bool {
		return isReady(pod) && restarts(pod) > restarts(before)
	})
	endsActiveGateway(t, rome)
	isReached()
	for _, c := range []*harness.Cluster{rome, milan} {
		networkingIs(t, c, v1alpha1.PeeringEstablished)
	}
}

// activeGateway returns the name of the node of a cluster's active gateway, or "" if no gateway is
// active.
func activeGateway(ctx context.Context, c *harness.Cluster) (string, error) {
	lease, err := c.Kube.CoordinationV1().Leases(harness.Namespace).Get(ctx, v1alpha1.GatewayName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return ptr.Deref(lease.Spec.HolderIdentity, ""), nil
}

// gatewayOn returns the pod of the gateway on a node of rome.
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

// endsActiveGateway deletes the pod of a cluster's active gateway. If the cluster has another node,
// it waits until a gateway on another node is active.
func endsActiveGateway(t *testing.T, c *harness.Cluster) {
	t.Helper()
	first := must(activeGateway(t.Context(), c))(t)
	kubectl(t, c, "delete", "pod", "-n", harness.Namespace, "-l", "app.kubernetes.io/name="+v1alpha1.GatewayName,
		"--field-selector", "spec.nodeName="+first, "--wait=false")
	if len(realNodes(t, c)) == 1 {
		return
	}
	eventually(t, soon, "the gateway of another node than "+first+" to be active",
		func(ctx context.Context) (bool, string, error) {
			now, err := activeGateway(ctx, c)
			return now != "" && now != first, now, err
		})
}

// networkingIs waits until rome or milan reports this networking phase in its ForeignCluster of the
// other cluster.
func networkingIs(t *testing.T, c *harness.Cluster, phase v1alpha1.PeeringPhase) {
	t.Helper()
	networkingWith(t, c, otherThan(c), phase)
}

// networkingWith waits until a cluster reports this networking phase in its ForeignCluster of
// another one.
func networkingWith(t *testing.T, c, other *harness.Cluster, phase v1alpha1.PeeringPhase) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("networking on %s with %s to be %s", c.Name, other.Name, phase),
		func(ctx context.Context) (bool, string, error) {
			fc, err := c.Federation.FederationV1alpha1().ForeignClusters().Get(ctx, other.Name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return fc.Status.Networking == phase, show(fc.Status), nil
		})
}

// shopOverBothClusters runs the sample shop on rome, offloads some of its services, and buys a
// product.
func (f fabric) shopOverBothClusters(t *testing.T) {
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Local})
	kubectl(t, rome, "apply", "-n", o.namespace, "-f", filepath.Join(playground.Root, "artifacts", "samples", "shop.yaml"))
	shopRuns(t, o)
	kubectl(t, rome, "patch", "namespaceoffloading", v1alpha1.NamespaceOffloadingName, "-n", o.namespace, "--type=merge",
		"-p", `{"spec":{"podOffloadingStrategy":"Remote"}}`)
	parts := "app in (cart,prices,recommend)"
	eventually(t, soon, "parts of the shop to be offloaded", func(ctx context.Context) (bool, string, error) {
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
